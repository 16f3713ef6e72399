"""What learning is: objectives, models, one worker's loop. Imports `corruption`, nothing of `pipelines`."""

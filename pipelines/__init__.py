"""The jobs you run: reading sources, preparing stores, streaming, training, tracking and the command line."""

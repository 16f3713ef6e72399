import pytest
from pydantic import ValidationError

from tests.trainers import tiny
from trainers.settings import TrainSettings


def test_lanes():
    assert tiny.settings(lanes=5).lanes == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"tokens_per_step": 200},
            "train.tokens_per_step: 200 is no multiple of train.microbatch_tokens 64; use 192 or 256",
        ),
        ({"tokens_per_step": 50}, "50 is no multiple of train.microbatch_tokens 64; use 64"),
        ({"warmup_steps": 1000}, "train.warmup_steps: 1000 is not below train.decay_steps 1000"),
        ({"final_learning_rate": 1.0}, "train.final_learning_rate: 1.0 is above train.learning_rate 0.001"),
        ({"betas": (0.9, 1.0)}, "train.betas: [0.9, 1.0] are not both in [0, 1)"),
        ({"learning_rat": 1.0}, "Extra inputs are not permitted"),
        ({"precision": "fp16"}, "'fp32' or 'bf16'"),
        ({"steps": 0}, "greater than 0"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValidationError) as caught:
        tiny.settings(**fields)
    assert message in str(caught.value)


def test_decay_steps_are_required():
    given = tiny.settings().model_dump()
    del given["decay_steps"]
    with pytest.raises(ValidationError, match="decay_steps"):
        TrainSettings(**given)

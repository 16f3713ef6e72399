import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.trainers import tiny
from trainers.collectives import World
from trainers.evaluation import evaluate
from trainers.objectives import objective


def rows(count=20):
    """That many lanes of one example each, with unequal numbers of labels."""
    return [tiny.lane(i, 50, 1 + i % 4, rows=1) for i in range(count)]


def grouped(parts, size):
    """The same examples as microbatches of `size` rows."""
    for start in range(0, len(parts), size):
        some = parts[start : start + size]
        columns = {name: np.concatenate([p.columns[name] for p in some]) for name in some[0].columns}
        lengths = np.concatenate([p.lengths for p in some])
        yield tiny.microbatch(replace(some[0], columns=columns, lengths=lengths))


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_A_22_loss_does_not_depend_on_the_split(kind):
    module = tiny.build(kind)
    found = [evaluate(module, objective("mlm"), grouped(rows(), size), World()) for size in (20, 3, 1, 3)]
    for other in found[1:]:
        assert other["loss"] == pytest.approx(found[0]["loss"], abs=1e-6)
        assert other["accuracy"] == found[0]["accuracy"] and other["count/mlm"] == found[0]["count/mlm"] == 50
    assert found[1] == found[3]  # twice the same is the same to the bit
    assert found[0]["perplexity"] == math.exp(found[0]["loss"])


def test_every_part_gets_its_own_mode_back():
    module = tiny.build().train()
    module.model.bert.embeddings.eval()
    modes = [part.training for part in module.modules()]

    def watched():
        for microbatch in grouped(rows(2), 1):
            assert not any(part.training for part in module.modules())
            yield microbatch
        raise OSError("the data broke")

    with pytest.raises(OSError):
        evaluate(module, objective("mlm"), watched(), World())
    assert [part.training for part in module.modules()] == modes
    assert torch.is_grad_enabled()


def test_nothing_to_count_is_no_loss_rather_than_zero():
    empty = [tiny.microbatch(tiny.filler(0)), tiny.microbatch(tiny.lane(0, 1, 0))]
    assert evaluate(tiny.build(), objective("mlm"), empty, World()) == {"count/mlm": 0.0}

import math

import pytest
import torch

from tests.trainers import tiny
from trainers.optim import build_optimizer, learning_rate


def rates(**fields):
    chosen = tiny.settings(learning_rate=1.0, **{"warmup_steps": 4, "decay_steps": 12} | fields)
    return [learning_rate(step, chosen) for step in range(15)]


def test_warmup_starts_above_zero_and_peaks_at_its_last_step():
    assert rates()[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates(warmup_steps=0)[0] == 1.0


def test_linear_decay_reaches_the_final_rate_and_stays():
    found = rates(final_learning_rate=0.2)
    assert found[4:13] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    assert found[12:] == [0.2, 0.2, 0.2]


def test_cosine_decay():
    found = rates(schedule="cosine", final_learning_rate=0.1)
    assert found[8] == pytest.approx(0.1 + 0.9 / 2) and found[12:] == [0.1] * 3
    assert found[6] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_biases_and_norms_are_not_decayed_and_every_weight_is_trained_once(kind):
    module = tiny.build(kind)
    decayed, spared = build_optimizer(module, tiny.settings(weight_decay=0.3)).param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    names = {id(p): name for name, p in module.named_parameters()}
    assert {id(p) for group in (decayed, spared) for p in group["params"]} == set(names)
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
    spared_names = [names[id(p)] for p in spared["params"]]
    assert all("bias" in name or "norm" in name.lower() for name in spared_names)
    decayed_names = [names[id(p)] for p in decayed["params"]]
    assert not any("bias" in name or "norm" in name.lower() for name in decayed_names)
    assert any("embeddings" in name for name in decayed_names)


def test_frozen_weights_are_left_out():
    module = tiny.build()
    module.model.bert.embeddings.requires_grad_(False)
    before = tiny.copy_of(module)
    tiny.run(module, tiny.steps(), chosen=tiny.settings(2))
    after = tiny.copy_of(module)
    frozen = [name for name in before if torch.equal(before[name], after[name])]
    assert frozen and all("embeddings" in name or "decoder.weight" in name for name in frozen)

import json
import os
import pathlib
import shutil
from dataclasses import replace

import pytest
import torch

import trainers.checkpoint
from corruption.errors import InputError
from tests.trainers import tiny
from trainers.checkpoint import damage, latest, load, prune, save
from trainers.hooks import Hooks
from trainers.state import restore

IDENTITY = {"seed": "7", "corpus": "ab12"}


@pytest.fixture(scope="module")
def states():
    """States after 1, 2 and 3 steps, with tensors of their own."""
    kept = []

    def keep(state):
        weights = {name: tensor.clone() for name, tensor in state.weights.items()}
        kept.append(replace(state, weights=weights, optimizer=torch_copy(state.optimizer)))

    chosen = tiny.settings(3, checkpoint_every=1)
    tiny.run(tiny.build(), tiny.steps(), chosen=chosen, hooks=Hooks(save=keep))
    return kept


def torch_copy(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: torch_copy(item) for key, item in value.items()}
    return value


def test_what_is_loaded_is_what_was_saved(states, tmp_path):
    state = replace(states[1], best=(1, 2.5), skipped=1)
    folder = save(tmp_path, state, IDENTITY)
    assert folder == tmp_path / "step_0000002"
    back = load(folder, IDENTITY)
    assert (back.step, back.cursor, back.tokens, back.seconds) == (2, (0, 0, 10), state.tokens, state.seconds)
    assert back.best == (1, 2.5) and back.skipped == 1
    assert tiny.same(dict(back.weights), dict(state.weights))
    for number, moments in state.optimizer["state"].items():
        assert tiny.same(back.optimizer["state"][number], moments)
    assert sorted(path.name for path in folder.iterdir()) == [
        "complete.json",
        "model.safetensors",
        "optimizer.pt",
        "state.json",
    ]


def test_shared_weights_are_stored_once_and_stay_shared(states, tmp_path):
    module = tiny.build(seed=9)
    optimizer = trainers_optimizer(module)
    restore(load(save(tmp_path, states[2], IDENTITY)), module, optimizer)
    decoder, embeddings = (
        module.model.cls.predictions.decoder.weight,
        module.model.bert.embeddings.word_embeddings.weight,
    )
    assert decoder is embeddings
    assert "model.cls.predictions.decoder.weight" not in states[2].weights


def trainers_optimizer(module):
    from trainers.optim import build_optimizer

    return build_optimizer(module, tiny.settings())


def test_a_checkpoint_of_another_model_is_refused_whole(states):
    module = tiny.build(width=16)
    before = tiny.copy_of(module)
    with pytest.raises(
        RuntimeError, match=r"the checkpoint is of another module: \d+ weights differ, first model\.bert"
    ):
        restore(states[0], module, trainers_optimizer(module))
    assert tiny.same(before, tiny.copy_of(module))


class Killed(BaseException):
    pass


def kill_at(monkeypatch, number):
    """Make the `number`-th call of anything that touches the disk the last thing that happens."""
    calls = 0

    def wrap(owner, name):
        real = getattr(owner, name)

        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == number:
                raise Killed
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    wrap(os, "fsync")
    wrap(os, "replace")
    wrap(shutil, "rmtree")
    wrap(pathlib.Path, "mkdir")
    wrap(pathlib.Path, "write_text")
    wrap(torch, "save")
    wrap(trainers.checkpoint, "save_file")
    return lambda: calls


def test_a_kill_at_any_point_of_a_save_leaves_a_whole_checkpoint(states, tmp_path):
    survived, number = [], 0
    while True:
        number += 1
        directory = tmp_path / str(number)
        save(directory, states[0], IDENTITY)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            try:
                save(directory, states[1], IDENTITY)
                break
            except Killed:
                pass
        folder, warnings = latest(directory)
        assert warnings == []
        survived.append(load(folder, IDENTITY).step)
        save(directory, states[1], IDENTITY)  # the next try goes through, over whatever was left
        assert load(latest(directory)[0], IDENTITY).step == 2
        prune(directory, keep=2)
        assert sorted(path.name for path in directory.iterdir()) == ["step_0000001", "step_0000002"]
    assert number > 15 and survived == sorted(survived) and set(survived) == {1, 2}


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda f: (f / "complete.json").unlink(), "complete.json is missing"),
        (lambda f: (f / "optimizer.pt").unlink(), "optimizer.pt is missing"),
        (lambda f: (f / "state.json").write_text("{"), "state.json has 1 bytes instead of"),
        (lambda f: (f / "complete.json").write_text("{}"), "model.safetensors is missing"),
        (lambda f: (f / "complete.json").write_text("[1"), "complete.json cannot be read"),
        (lambda f: flip(f / "model.safetensors"), "model.safetensors has another checksum"),
    ],
)
def test_a_broken_checkpoint_is_passed_over_with_a_warning(states, tmp_path, harm, problem):
    first, second = save(tmp_path, states[0], IDENTITY), save(tmp_path, states[1], IDENTITY)
    harm(second)
    assert problem in damage(second)
    found, warnings = latest(tmp_path)
    assert found == first and len(warnings) == 1 and "step_0000002 is passed over: " + problem in warnings[0]
    with pytest.raises(InputError, match=problem):
        load(second)
    assert save(tmp_path, states[1], IDENTITY) == second and damage(second) is None  # and is replaced


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_nothing_there(tmp_path):
    assert latest(tmp_path / "none") == (None, [])
    assert latest(tmp_path) == (None, [])
    assert prune(tmp_path / "none", keep=1) == []


def test_another_identity_is_refused_with_the_keys_that_differ(states, tmp_path):
    folder = save(tmp_path, states[0], IDENTITY)
    with pytest.raises(InputError) as caught:
        load(folder, {"seed": "8", "corpus": "ab12", "model": "x"})
    assert "made with another model (none there, x now), seed (7 there, 8 now)" in str(caught.value)
    assert "corpus" not in str(caught.value)
    with pytest.raises(InputError, match="made with another seed"):
        save(tmp_path, states[0], {**IDENTITY, "seed": "8"})


def test_saving_a_step_again_keeps_the_first(states, tmp_path):
    folder = save(tmp_path, states[0], IDENTITY)
    before = (folder / "state.json").stat().st_mtime_ns
    assert save(tmp_path, replace(states[0], seconds=99.0), IDENTITY) == folder
    assert (folder / "state.json").stat().st_mtime_ns == before


def test_prune_keeps_the_newest_and_the_best(states, tmp_path):
    for step in (1, 2, 3, 20, 30):
        save(tmp_path, replace(states[0], step=step), IDENTITY)
    (tmp_path / "notes.txt").write_text("mine")
    gone = prune(tmp_path, keep=2, best=2)
    assert sorted(path.name for path in gone) == ["step_0000001", "step_0000003"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "step_0000002",
        "step_0000020",
        "step_0000030",
    ]


def test_the_state_file_can_be_read_by_anyone(states, tmp_path):
    stored = json.loads((save(tmp_path, states[1], IDENTITY) / "state.json").read_text())
    assert stored["step"] == 2 and stored["identity"] == IDENTITY

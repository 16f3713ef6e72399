"""The same recipe on other numbers of trainers and corruptors: the same bytes at every step, the same losses."""

from __future__ import annotations

import pytest

from tests.end_to_end.conftest import Made
from tests.end_to_end.tiny import digests, losses, papermoth, write_recipe


@pytest.mark.timeout(400)
def test_two_trainers_and_two_corruptors_eat_the_same_bytes(undisturbed: Made) -> None:
    recipe = write_recipe(undisturbed.folder / "two.yaml", undisturbed.corpus, trainers=2, corruptors=2)
    done = papermoth("pretrain", recipe, "--out", "two", cwd=undisturbed.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reusing the store" in done.stdout
    one, two = digests(undisturbed.run), digests(undisturbed.folder / "two")
    assert len(one) == 50 and len(set(one)) == 50
    assert one == two
    left, right = losses(undisturbed.run), losses(undisturbed.folder / "two")
    assert sorted(left) == sorted(right) == list(range(1, 51))
    for step in left:
        assert right[step] == pytest.approx(left[step], rel=1e-4)


def test_a_finished_run_started_again_does_nothing(undisturbed: Made) -> None:
    before = sorted(path.name for path in (undisturbed.run / "checkpoints").iterdir())
    done = papermoth("pretrain", undisturbed.recipe, "--out", "one", cwd=undisturbed.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "already at step 50 of 50" in done.stdout
    assert sorted(path.name for path in (undisturbed.run / "checkpoints").iterdir()) == before


def test_another_identity_is_refused_by_key(undisturbed: Made) -> None:
    other = ("--set", "train.learning_rate=0.5")
    done = papermoth("pretrain", undisturbed.recipe, "--out", "one", *other, cwd=undisturbed.folder)
    assert done.returncode == 2
    assert "train.learning_rate (0.001 there, 0.5 now)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_plan_is_said_before_the_start(undisturbed: Made) -> None:
    assert "plan: 50 steps (" in undisturbed.output
    assert "epochs) of 3 microbatches of at most 512 positions" in undisturbed.output

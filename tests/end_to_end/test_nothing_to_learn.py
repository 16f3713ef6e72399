"""A run in which nothing is masked must not look like a perfect one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.tiny import papermoth, runs_in, write_corpus, write_recipe


@pytest.mark.soak
def test_H_08_no_trainable_tokens_ends_with_code_1(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "tiny.yaml", write_corpus(tmp_path / "corpus", 20), steps=4)
    text = recipe.read_text()
    recipe.write_text(text.replace("{kind: mask}", "{kind: mask, rate: 0.0}"))
    assert recipe.read_text() != text
    done = papermoth("pretrain", recipe, "--out", "run", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("papermoth: nothing to learn from: no trainable tokens") and "checkpoint" not in said
    assert "Traceback" not in done.stderr and "loss 0" not in done.stdout
    assert not (tmp_path / "run" / "model").exists()
    assert runs_in(tmp_path / "runs" / "mlflow.db") == ["FAILED"]

"""The page on Python does what it says: its snippets run, one after the other, in a folder with a model and texts."""

from __future__ import annotations

import re
from pathlib import Path

import datasets
import pytest
from transformers import BertConfig, BertForMaskedLM

from tests.pipelines.trained import news, trained

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of someone who follows the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    tokenizer = trained("wordpiece")
    tokenizer.save_pretrained("my-model")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained("my-model")
    (tmp_path / "texts.txt").write_text("\n".join(news()[:64]), "utf-8")
    (tmp_path / "passages").mkdir()
    return tmp_path


@pytest.mark.usefixtures("local_ray")
def test_the_snippets_run(folder):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        # Ray's workers were started in another folder.
        here = block.replace('read_parquet("passages")', f'read_parquet("{folder}/passages")')
        here = here.replace('write_parquet("examples")', f'write_parquet("{folder}/examples")')
        exec(compile(here, str(PAGE), "exec"), names)
    masked = datasets.load_from_disk("masked")
    assert masked.column_names == ["input_ids", "labels"] and len(masked) == 64
    corrupted = {tuple(row) for row in masked["input_ids"]}
    written = datasets.Dataset.from_parquet(str(folder / "examples" / "*.parquet"))
    assert {tuple(row) for row in written["input_ids"]} == corrupted
    assert names["trainer"].state.global_step == 24
    assert names["collator"].epoch == 2

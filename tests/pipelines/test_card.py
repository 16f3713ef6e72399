"""The model card says what was done, and names whose text it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import yaml

from pipelines.card import model_card
from pipelines.identity import identity
from pipelines.job import Job
from pipelines.store import MANIFEST, json_bytes

ATTRIBUTION = ("Wikipedia", "contributors", "Attribution-ShareAlike", "authors")


def from_sources(job: Job, folder: Path, *formats: list[str]) -> Job:
    """The job with a store whose manifest names these formats, source by source."""
    manifest = json.loads((Path(job.store) / MANIFEST).read_text())
    manifest["sources"] = [{"name": "", "formats": given, "files": 1} for given in formats]
    folder.mkdir(exist_ok=True)
    (folder / MANIFEST).write_bytes(json_bytes(manifest))
    return replace(job, store=str(folder))


def test_the_metadata_block_is_yaml(small: Job) -> None:
    _, head, body = model_card(small, 4).split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "transformers"
    assert yaml.safe_load(head)["tags"] == ["papermoth", "mlm", "bert"]
    assert yaml.safe_load(head)["license"] and body.startswith("\n# small\n")


def test_identities_and_numbers_are_there(small: Job) -> None:
    card, store = model_card(small, 3), small.opened_store()
    assert f"`{identity(small.identity)}`" in card and f"`{store.identity}`" in card
    assert small.identity["tokenizer.fingerprint"] in card
    assert "| steps | 3 of " in card
    assert f"{store.manifest['passages']['train']:,} passages with {store.manifest['tokens']['train']:,} tokens" in card
    assert f"{store.manifest['passages']['held_out']:,} passages were held out" in card
    assert "- `mask`: " in card and "rate 0.15" in card and "mask_share 0.8" in card
    assert "None" not in card


def test_wikipedia_is_attributed_whatever_else_was_read(small: Job, tmp_path: Path) -> None:
    for formats in ([["wikipedia"]], [["jsonl"], ["text", "wikipedia"]]):
        card = model_card(from_sources(small, tmp_path, *formats), 4)
        assert all(word in card for word in ATTRIBUTION), card
    other = model_card(from_sources(small, tmp_path, ["jsonl"], ["text"]), 4)
    assert not any(word in other for word in ATTRIBUTION)


def test_a_prepared_dump_is_known_as_wikipedia(tmp_path: Path) -> None:
    from tests.pipelines.formats.test_wikipedia import FOOT, HEAD, page
    from tests.pipelines.small_run import small_job, small_recipe

    text = "A moth is an insect of the order Lepidoptera. It flies at night."
    pages = "".join(page(n, f"Page {n}", f"{text} It is number {n}.") for n in range(1, 9))
    (tmp_path / "w.xml").write_text(HEAD + pages + FOOT)
    job = small_job(tmp_path, small_recipe(tmp_path, tmp_path / "w.xml", more=", format: wikipedia"))
    assert all(word in model_card(job, 4) for word in ATTRIBUTION)

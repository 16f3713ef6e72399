"""Prepare without Ray: the driver's part, what is refused before any work, and what is said at the end."""

from __future__ import annotations

import bz2
import importlib.resources
import json
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines import prepare as prepare_module
from pipelines.documents import Tally
from pipelines.outcome import JobFailed
from pipelines.prepare import GROUP_BYTES, QUARANTINE_FILE, REQUEST, grouped, prepare
from pipelines.ray_session import RaySession
from pipelines.recipe import load_recipe
from pipelines.shard_task import PARTS
from pipelines.sources import Source, Unit
from pipelines.store import MANIFEST, open_store
from tests.pipelines import small_run
from tests.pipelines.small_run import Heard, prepare_here, small_recipe, write_corpus
from tests.pipelines.trained import news, trained

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")


def unit(source: int, size: int) -> Unit:
    return Unit(source, "", f"{source}-{size}", "/x", "text", "", size, "", Source(source="x"))


def test_small_units_of_one_source_are_read_together() -> None:
    third = GROUP_BYTES // 3
    units = [
        unit(0, third),
        unit(0, third),
        unit(0, third),
        unit(0, 3),
        unit(1, 1),
        unit(1, 0),
        unit(2, GROUP_BYTES * 9),
    ]
    assert [len(group) for group in grouped(units)] == [3, 1, 2, 1]
    assert [u for group in grouped(units) for u in group] == units
    assert grouped([]) == []


def test_prepared_once_and_found_again(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    first, again = Heard(), Heard()
    made = prepare_here(recipe, heard=first)
    assert made.store.folder.parent == tmp_path / "stores" and not made.reused
    assert "read 60 rows: 60 documents" in first.out and not first.err
    assert made.tally.documents == 60 and made.tally.adds_up()
    assert not list(made.store.folder.glob(f"{PARTS}*")) and not (made.store.folder / REQUEST).exists()
    found = prepare_here(recipe, heard=again)
    assert found.reused and found.store.identity == made.store.identity and found.tally == made.tally
    assert "reusing the store stores/" in again.out
    looked = prepare_here(recipe, only_look=True)
    assert looked.reused
    made.store.check_content()


def test_other_text_or_settings_make_another_store_and_a_moved_root_does_not(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path / "a", write_corpus(tmp_path / "a" / "corpus.txt"))
    first = prepare_here(recipe).store
    shutil.copytree(tmp_path / "a", tmp_path / "b d")
    moved = prepare_here(small_recipe(tmp_path / "b d", tmp_path / "b d" / "corpus.txt"))
    assert moved.reused and moved.store.folder == first.folder
    elsewhere = prepare_here(small_recipe(tmp_path / "b d", tmp_path / "b d" / "corpus.txt"), tmp_path / "other").store
    assert elsewhere.identity == first.identity, "nor does the place of the tokenizer enter the identity"
    shorter = prepare_here(small_recipe(tmp_path / "a", tmp_path / "a" / "corpus.txt", ["corpus.max_tokens=32"])).store
    write_corpus(tmp_path / "a" / "corpus.txt", news()[:59])
    fewer = prepare_here(small_recipe(tmp_path / "a", tmp_path / "a" / "corpus.txt")).store
    assert len({first.folder, shorter.folder, fewer.folder}) == 3


def test_only_look_makes_nothing(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="and --dry-run and --step make nothing; run papermoth prepare first"):
        prepare_here(recipe, only_look=True)
    train = "{train: {kind: wordpiece, vocab_size: 300}}"
    with pytest.raises(InputError, match="not prepared yet"):
        prepare_here(small_recipe(tmp_path, tmp_path / "corpus.txt", tokenizer=train), only_look=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unfinished_store_is_gone_on_with_and_another_one_is_refused(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    whole = prepare_here(recipe, tmp_path / "whole").store
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_module, "_finish", _killed)
        with pytest.raises(KeyboardInterrupt):
            prepare_here(recipe, tmp_path / "cut")
    assert (tmp_path / "cut" / REQUEST).exists() and not (tmp_path / "cut" / MANIFEST).exists()
    with pytest.raises(InputError, match="another, unfinished store lies there; use another --out, or --fresh"):
        prepare_here(small_recipe(tmp_path, tmp_path / "corpus.txt", ["corpus.max_tokens=32"]), tmp_path / "cut")
    finished = prepare_here(recipe, tmp_path / "cut").store
    assert _contents(finished.folder) == _contents(whole.folder)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_store_of_something_else_is_refused_and_fresh_replaces_it(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    prepare_here(recipe, tmp_path / "out")
    other = small_recipe(tmp_path, tmp_path / "corpus.txt", ["corpus.max_tokens=32"])
    with pytest.raises(InputError, match="prepared from something else; use another --out, or --fresh"):
        prepare_here(other, tmp_path / "out")
    assert prepare_here(other, tmp_path / "out", fresh=True).store.manifest["settings"]["budget"] == 30


def test_foreign_folders_are_never_touched(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    for fresh, said in ((False, "not empty"), (True, "no store of ours")):
        with pytest.raises(InputError, match=said):
            prepare_here(recipe, tmp_path / "mine", fresh=fresh)
        with pytest.raises(InputError, match="it is a file"):
            prepare_here(recipe, tmp_path / "corpus.txt", fresh=fresh)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_H_09_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "d s" / "in put.txt"))
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    for fresh in (False, True):
        store = prepare_here(recipe, tmp_path / "out", fresh=fresh).store
        assert (tmp_path / "out").is_symlink() and (tmp_path / "disk" / MANIFEST).exists()
    assert open_store(tmp_path / "out").identity == store.identity


def test_a_store_given_by_folder_must_be_cut_as_the_recipe_says(tmp_path: Path) -> None:
    made = prepare_here(small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt")), tmp_path / "store").store

    def using(**changed: object):
        numbers = {"max_tokens": 48, "held_out": 0.2, "row_group_tokens": 2048} | changed
        path = tmp_path / "using.yaml"
        text = (tmp_path / "small.yaml").read_text().splitlines()
        kept = [line for line in text if not line.startswith(("corpus:", "tokenizer:"))]
        given = ", ".join(f"{key}: {value}" for key, value in numbers.items())
        path.write_text("\n".join([*kept, f'corpus: {{store: "{made.folder}", {given}}}']))
        return load_recipe(path)

    heard = Heard()
    report = prepare_here(using(), heard=heard)
    assert report.reused and report.store.identity == made.identity and "using the store" in heard.out
    for key, value, said in (
        ("max_tokens", 32, r"corpus\.max_tokens \(without special tokens\): 30, but the store .* made with 46"),
        ("held_out", 0.5, r"corpus\.held_out: 0\.5, but the store .* made with 0\.2; make them equal"),
        ("row_group_tokens", 4096, r"corpus\.row_group_tokens: 4096, but"),
    ):
        with pytest.raises(InputError, match=said):
            prepare_here(using(**{key: value}))
    shard = next(made.folder.glob("train-*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"shard {shard.name} is \d+ bytes, the manifest says"):
        prepare_here(using())


def test_D_06_a_folder_without_a_manifest_is_no_store(tmp_path: Path) -> None:
    """`pretrain` with the store of a killed prepare is refused before Ray or a model is started."""
    from pipelines.pretrain import pretrain

    small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    prepare_here(load_recipe(tmp_path / "small.yaml"), tmp_path / "store")
    (tmp_path / "store" / MANIFEST).unlink()
    text = (tmp_path / "small.yaml").read_text().splitlines()
    kept = [line for line in text if not line.startswith(("corpus:", "tokenizer:"))]
    (tmp_path / "using.yaml").write_text("\n".join([*kept, f'corpus: {{store: "{tmp_path / "store"}"}}']))
    with pytest.raises(InputError, match=r"holds no manifest\.json, so it is no finished store; run papermoth prepare"):
        pretrain(load_recipe(tmp_path / "using.yaml"), console=Heard().console)
    assert not (tmp_path / "runs").exists()


def test_nothing_usable_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": 7}\n{torn\n')
    recipe = small_recipe(tmp_path, tmp_path / "bad.jsonl", more="")
    with pytest.raises(InputError, match=r"none of the 2 rows read can be used \(1 invalid_json, 1 not_text\)"):
        prepare_here(recipe, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_too_few_documents_leave_the_folder_free_for_the_remedy(tmp_path: Path) -> None:
    """What the message advises must work in the same --out."""
    source = write_corpus(tmp_path / "corpus.txt")
    with pytest.raises(InputError, match=r"1 usable document; .*documents: line"):
        prepare_here(small_recipe(tmp_path, source, more=""), tmp_path / "store")
    assert prepare_here(small_recipe(tmp_path, source), tmp_path / "store").tally.documents == 60


@pytest.mark.parametrize(("unsegmented", "warns"), [(1000, False), (1001, True)])
def test_A_21_scripts_without_spaces_are_worth_a_word_from_one_in_a_thousand(
    tmp_path: Path, unsegmented: int, warns: bool
) -> None:
    counts = Counter(unsegmented_characters=unsegmented, unsegmented_documents=3, characters=1_000_000)
    heard = Heard()
    prepare_module._say_rejects(Tally(), counts, tmp_path, heard.console)
    assert bool(heard.err) == warns
    if warns:
        assert "1,001 characters" in heard.err and "3 documents without a words column" in heard.err


def test_A_21_a_warning_without_a_segmenter_and_none_with_one(tmp_path: Path) -> None:
    text, words = "我喜欢弹琵琶", ["我", "喜欢", "弹", "琵琶"]
    for number, (given, more) in enumerate((({}, ""), ({"words": words}, ", words: words"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "zh.jsonl").write_text(
            "".join(json.dumps({"text": text + "。" * i} | given) + "\n" for i in range(1)) * 9
        )
        heard = Heard()
        prepare_here(small_recipe(folder, folder / "zh.jsonl", more=more), folder / "store", heard=heard)
        assert heard.err.count("without a words column") == (0 if given else 1), heard.err


def test_A_19_a_tokenizer_without_the_mask_token_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    import copy

    tokenizer = copy.deepcopy(trained("bpe"))
    for need in ("mask_token", "pad_token"):
        lacking = copy.deepcopy(tokenizer)
        setattr(lacking, need, None)
        lacking.save_pretrained(tmp_path / need)
        recipe = small_recipe(
            tmp_path, write_corpus(tmp_path / "corpus.txt"), tokenizer=f'{{path: "{tmp_path / need}"}}'
        )
        with pytest.raises(InputError, match=rf"it has no {need}, which the objective mlm needs"):
            prepare_here(recipe)
        assert not (tmp_path / "stores").exists()


def test_F_06_a_truncated_dump_gives_its_complete_pages_and_says_so(tmp_path: Path) -> None:
    dump = importlib.resources.files("gensim") / "test" / "test_data" / DUMP
    head, *pages = bz2.decompress(dump.read_bytes()).split(b"  <page>")
    streams = [bz2.compress(part) for part in (head, *(b"  <page>" + page for page in pages[:60]))]
    (tmp_path / "wiki.xml.bz2").write_bytes(b"".join(streams)[:-20])
    recipe = small_recipe(tmp_path, tmp_path / "wiki.xml.bz2", more=", format: wikipedia")
    heard = Heard()
    report = prepare_here(recipe, tmp_path / "store", heard=heard)
    tally = report.store.manifest["tally"]
    assert tally["rejects"] == {"truncated": 1} and tally["rows"] == 60, tally
    assert tally["documents"] + sum(tally["expected"].values()) == 59
    (fault,) = [json.loads(line) for line in (tmp_path / "store" / QUARANTINE_FILE).read_text().splitlines()]
    assert fault["file"] == "wiki.xml.bz2" and fault["reason"] == "truncated"
    assert "1 truncated" in heard.out and "1 rows or files were rejected; see store/quarantine.jsonl" in heard.err
    with pytest.raises(JobFailed, match="--strict: 1 rows or files were rejected") as failed:
        prepare_here(recipe, tmp_path / "store", strict=True)
    assert failed.value.exit_code == 1
    with pytest.raises(JobFailed):
        prepare_here(recipe, tmp_path / "strict", strict=True)
    assert (tmp_path / "strict" / MANIFEST).exists(), "what could be used is there all the same"


@pytest.mark.timeout(120)
def test_D_12_prepare_ends_after_the_driver_has_tokenised(tmp_path: Path, local_ray: None) -> None:
    """The real job with two workers, its tokenizer used in this process first; the same bytes as without Ray."""
    from pipelines.tokenizers import load_tokenizer

    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    tokenizer = load_tokenizer(str(tmp_path / "tokenizer"))
    tokenizer(["two texts", "make it start its threads"], truncation=True, max_length=3, padding=True)
    state = tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding
    began = time.monotonic()
    with RaySession() as session:
        made = prepare(recipe, out=tmp_path / "store", workers=2, session=session, console=Heard().console).store
    assert time.monotonic() - began < 60
    assert (tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding) == state
    with pytest.MonkeyPatch.context() as patch:
        # The real job makes parts of a megabyte at the least.
        patch.setattr(small_run.one_after_another, "__kwdefaults__", {"part_bytes": prepare_module.PART_BYTES[0]})
        alone = prepare_here(recipe, tmp_path / "alone").store
    assert _contents(made.folder) == _contents(alone.folder)

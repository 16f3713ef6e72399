"""The recipe's tokenizer: trained once, the same wherever the corpus lies, and never put over something else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines.recipe import Recipe
from pipelines.sources import list_files
from pipelines.tokenizer_job import ensure_tokenizer, files_fingerprint, is_trained, sample_texts, train, trained_folder
from tests.pipelines.small_run import Heard, small_recipe, write_corpus

TRAIN = "{{train: {{kind: {kind}, vocab_size: {size}, lowercase: true}}}}"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recipe_of(folder: Path, *, kind: str = "wordpiece", size: int = 400, more: str = ", documents: line") -> Recipe:
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_corpus(corpus)
    return small_recipe(folder, corpus, tokenizer=TRAIN.format(kind=kind, size=size), more=more)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_the_same_corpus_gives_the_same_files(tmp_path: Path, kind: str) -> None:
    recipe = recipe_of(tmp_path, kind=kind)
    first = files_in(train(recipe, console=Heard().console))
    shutil.rmtree(tmp_path / "stores")
    assert files_in(train(recipe, console=Heard().console)) == first
    assert {"tokenizer.json", "tokenizer_config.json"} <= first.keys()


def test_trained_once_and_found_again(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    files = list_files(recipe.corpus.located(), tmp_path)
    first, again = Heard(), Heard()
    assert not is_trained(recipe, files)
    folder = train(recipe, console=first.console)
    assert folder == trained_folder(recipe, files) and is_trained(recipe, files)
    assert "training a wordpiece tokenizer of 400 tokens" in first.out
    assert train(recipe, console=again.console) == folder
    assert again.out.startswith("reusing the tokenizer stores/tokenizers/")
    used = ensure_tokenizer(recipe, files, console=again.console)
    assert len(used) == 400 and "training" not in again.out
    assert [path.name for path in (tmp_path / "stores" / "tokenizers").iterdir()] == [folder.name]


def test_a_moved_root_gives_the_same_folder_and_other_text_or_settings_another(tmp_path: Path) -> None:
    def folder_of(recipe: Recipe) -> Path:
        return trained_folder(recipe, list_files(recipe.corpus.located(), tmp_path))

    first = folder_of(recipe_of(tmp_path / "here"))
    shutil.copytree(tmp_path / "here", tmp_path / "there d")
    assert folder_of(recipe_of(tmp_path / "there d")) == first
    assert folder_of(recipe_of(tmp_path / "here", more=", documents: line, weight: 3.0")) == first
    others = [
        folder_of(recipe_of(tmp_path / "here", size=401)),
        folder_of(recipe_of(tmp_path / "here", kind="bpe")),
        folder_of(recipe_of(tmp_path / "here", more=", documents: block")),
    ]
    write_corpus(tmp_path / "here" / "corpus.txt", ["changed", "text", "here"])
    others.append(folder_of(recipe_of(tmp_path / "here")))
    assert len({first, *others}) == 5


def test_a_half_written_tokenizer_is_none(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    files = list_files(recipe.corpus.located(), tmp_path)
    folder = trained_folder(recipe, files)
    left = folder.with_name(f".partial-{folder.name}")
    left.mkdir(parents=True)
    (left / "tokenizer.json").write_text("{")
    assert not is_trained(recipe, files)
    train(recipe, console=Heard().console)
    assert is_trained(recipe, files) and not left.exists()


def test_out_holds_a_copy_that_is_found_again(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    for out in (Path("artifacts/tok"), Path("link")):
        heard = Heard()
        target = train(recipe, out=out, console=heard.console)
        assert target == (tmp_path / out).resolve() and f"copied it to {target.relative_to(tmp_path)}" in heard.out
        assert files_in(target) == files_in(train(recipe, console=Heard().console))
        again = Heard()
        assert train(recipe, out=out, console=again.console) == target
        assert again.out == f"reusing the tokenizer {target.relative_to(tmp_path)}\n"
    assert (tmp_path / "link").is_symlink()


def test_out_never_replaces_something_else(tmp_path: Path) -> None:
    """Neither a folder of the user's nor a tokenizer of other settings, which would silently do nothing if reused."""
    recipe = recipe_of(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear reader")
    train(recipe_of(tmp_path, size=300), out=tmp_path / "small", console=Heard().console)
    before = files_in(tmp_path / "small")
    for out in ("mine", "small"):
        with pytest.raises(InputError, match="something else lies in the folder; give an empty or new folder"):
            train(recipe, out=tmp_path / out, console=Heard().console)
    with pytest.raises(InputError, match="it is a file"):
        train(recipe, out=tmp_path / "mine" / "letter.txt", console=Heard().console)
    assert files_in(tmp_path / "mine") == {"letter.txt": b"dear reader"} and files_in(tmp_path / "small") == before


def test_a_recipe_with_a_tokenizer_is_refused(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, write_corpus(tmp_path / "corpus.txt"))
    with pytest.raises(InputError, match=r"^tokenizer\.path: the recipe uses the tokenizer .*; give tokenizer\.train"):
        train(recipe, console=Heard().console)


def test_a_corpus_without_text_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt", ["  ", "\t"])
    with pytest.raises(InputError):
        train(recipe_of(tmp_path), console=Heard().console)
    assert not (tmp_path / "stores").exists()


def test_samples_are_the_first_texts_in_order(tmp_path: Path) -> None:
    lines = [f"{number}" + " é" * 270_000 for number in range(5)]
    recipe = recipe_of(tmp_path)
    write_corpus(tmp_path / "corpus.txt", lines)
    files = list_files(recipe.corpus.located(), tmp_path)
    assert list(sample_texts(files, 1)) == lines[:2], "the text that crosses the border is the last"
    assert list(sample_texts(files, 4)) == lines


def test_fingerprints_see_what_is_read_and_how(tmp_path: Path) -> None:
    def fingerprint(**more: str) -> str:
        options = "".join(f", {key}: {value}" for key, value in more.items())
        return files_fingerprint(list_files(recipe_of(tmp_path, more=options).corpus.located(), tmp_path))

    assert fingerprint() == fingerprint()
    assert len({fingerprint(), fingerprint(documents="line"), fingerprint(name="news")}) == 3


def test_G_08_a_run_without_spaces_is_broken_for_learning(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    write_corpus(tmp_path / "corpus.txt", ["short words stay", "a" * 2500])
    files = list_files(recipe.corpus.located(), tmp_path)
    kept, broken = sample_texts(files, 1)
    assert kept == "short words stay"
    assert [len(piece) for piece in broken.split("\n")] == [1000, 1000, 500]

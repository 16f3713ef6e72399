"""Replaced-token data: the law of its labels, samples from the generator's own distribution, and what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForPreTraining,
)

from corruption.errors import InputError
from corruption.noise import draw, folded, stream, unit
from corruption.ragged import Batch, Ragged
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from pipelines import cli
from pipelines.data_set import DATA, DataSet, open_data_set
from pipelines.generate import follow
from pipelines.generate_plan import Piece
from pipelines.generate_task import Work
from pipelines.generator import Generator, open_generator
from pipelines.generator_model import GeneratorModel, batches, choose
from pipelines.generator_replace import Replacing, replaced, units
from pipelines.recipe import Recipe, load_recipe
from tests.pipelines.generated import contents, generate_here
from tests.pipelines.small_run import Heard, prepare_here, small_recipe, write_corpus
from tests.pipelines.trained import trained
from tests.pipelines.verified import copied, laws, said, tampered


def tiny_bert(folder: Path, *, zeroed: bool = False, tokenizer: bool = True, **config) -> Path:
    """A BERT of one layer with drawn weights that give clear preferences; zeroed: every token equally likely."""
    torch.manual_seed(1)
    settings = {"vocab_size": len(trained("wordpiece")), "max_position_embeddings": 48, "initializer_range": 0.5}
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForMaskedLM(BertConfig(**{**settings, **small, **config}))
    if zeroed:
        with torch.no_grad():
            model.get_input_embeddings().weight.zero_()
            model.cls.predictions.bias.zero_()
    model.save_pretrained(folder)
    if tokenizer:
        trained("wordpiece").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a prepared store, `stored.yaml` that names it, and two generators: `bert` and `uniform`."""
    folder = tmp_path_factory.mktemp("place")
    recipe = small_recipe(folder, write_corpus(folder / "corpus.txt"))
    store = prepare_here(recipe, folder / "store").store.folder
    text = (folder / "small.yaml").read_text().splitlines()
    text[2] = f'corpus:     {{store: "{store}", max_tokens: 48, held_out: 0.2, row_group_tokens: 2048}}'
    (folder / "stored.yaml").write_text("\n".join(line for line in text if not line.startswith("tokenizer:")))
    tiny_bert(folder / "bert")
    tiny_bert(folder / "uniform", zeroed=True)
    return folder


def recipe_of(place: Path, *settings: str) -> Recipe:
    return load_recipe(place / "stored.yaml", settings)


def replace_here(pieces: Sequence[Piece], work: Work, folder: Path, total: int, workers, console) -> None:
    """What the Ray job does with one actor, in a loop."""
    actor = Replacing(work, "cpu")
    follow((actor.attempt(piece) for piece in pieces), folder, len(pieces), total, console)


def make(place: Path, out: Path, *settings: str, model: str = "bert", **options) -> DataSet:
    return generate_here(recipe_of(place, *settings), out, run=replace_here, generator=str(place / model), **options)


def rows_of(data: DataSet) -> list[dict]:
    return [row for split in ("train", "validation") for s in data.shards(split) for row in data.read(s).to_pylist()]


@pytest.fixture(scope="module")
def made(place: Path) -> DataSet:
    return make(place, place / "made", copies=2, epochs=2)


@pytest.fixture(scope="module")
def masked(place: Path) -> DataSet:
    """The same request without a generator: what the generator read."""
    return generate_here(recipe_of(place), place / "masked", copies=2, epochs=2)


def pairs(made: DataSet, masked: DataSet) -> list[tuple[dict, dict, np.ndarray]]:
    """(row, masked row, bool[T] of the selected positions) of all rows."""
    found = []
    for row, source in zip(rows_of(made), rows_of(masked), strict=True):
        assert [row[name] for name in ("key", "epoch", "copy")] == [source[name] for name in ("key", "epoch", "copy")]
        found.append((row, source, np.array(source["labels"]) != IGNORE))
    return found


# O2: the law of the labels


def test_O2_a_label_is_1_exactly_where_the_token_differs_from_the_original(made: DataSet, masked: DataSet) -> None:
    for row, source, at in pairs(made, masked):
        original = np.where(at, source["labels"], source["input_ids"])
        assert row["labels"] == (np.array(row["input_ids"]) != original).astype(int).tolist()
        assert row["labels"][0] == row["labels"][-1] == 0


def test_O2_unselected_positions_are_untouched_and_every_selected_one_is_drawn(made: DataSet, masked: DataSet) -> None:
    changed = kept = kept_changed = 0
    for row, source, at in pairs(made, masked):
        ids, read, wanted = np.array(row["input_ids"]), np.array(source["input_ids"]), np.array(source["labels"])
        assert (ids[~at] == read[~at]).all()
        changed += int((ids[at] != wanted[at]).sum())
        stays = at & (read == wanted)
        kept, kept_changed = kept + int(stays.sum()), kept_changed + int((ids[stays] != wanted[stays]).sum())
    assert changed > 0
    assert kept > 20 and kept_changed > kept / 2, "positions that the mask kept get samples too"


def test_B1_no_mask_and_no_special_token_is_invented(made: DataSet) -> None:
    vocabulary = Vocabulary.from_tokenizer(trained("wordpiece"))
    for row in rows_of(made):
        inner = np.array(row["input_ids"][1:-1])
        assert vocabulary.mask not in inner.tolist()
        sampled = inner[np.array(row["labels"][1:-1]) == 1]
        assert (vocabulary.rank[sampled] >= 0).all()


def test_counts_of_the_manifest_are_those_of_the_rows(made: DataSet, masked: DataSet, place: Path) -> None:
    for split in ("train", "validation"):
        own = [row for shard in made.shards(split) for row in made.read(shard).to_pylist()]
        found = made.manifest["realised"][split]
        assert found["replaced"] == sum(sum(row["labels"]) for row in own)
        assert found["selected"] == masked.manifest["realised"][split]["labelled"]
        assert made.manifest["replaced_share"][split] == found["replaced"] / found["selected"]
    said = made.manifest["generator"]
    assert said["temperature"] == 1.0 and re.fullmatch("[0-9a-f]{32}", said["fingerprint"])
    assert made.manifest["generator_name"] == "bert"
    card = (made.folder / "README.md").read_text()
    assert "- replaced-token-detection\n" in card and "| generator of the replaced tokens | `bert`, fing" in card
    assert "a label is 1 where a sample replaced the token, else 0" in card and "| replaced, of the selected" in card
    assert str(place) not in card


def test_O2_a_uniform_generator_replaces_the_share_it_must(place: Path, tmp_path: Path) -> None:
    data = make(place, tmp_path / "out", model="uniform", epochs=4)
    found = data.manifest["realised"]["train"]
    pool = len(Vocabulary.from_tokenizer(trained("wordpiece")).pool)
    low, high = binom.interval(1 - 1e-4, found["selected"], 1 - 1 / pool)
    assert found["selected"] > 2000 and low <= found["replaced"] <= high
    assert found["selected"] / found["choosable"] == pytest.approx(0.15, abs=0.01)


def test_B12_rows_without_labels_stay_as_they_are(place: Path, tmp_path: Path) -> None:
    data = make(place, tmp_path / "out", "corruption.mask.rate=0.0")
    assert data.manifest["realised"]["train"]["selected"] == 0 and data.manifest["replaced_share"] == {}
    assert all(not any(row["labels"]) for row in rows_of(data))


# The samples


def test_O2_temperature_0_is_argmax_of_the_whole_model(place: Path, masked: DataSet, tmp_path: Path) -> None:
    data = make(place, tmp_path / "out", copies=2, epochs=2, temperature=0.0)
    model = BertForMaskedLM.from_pretrained(place / "bert").eval()
    pool = Vocabulary.from_tokenizer(trained("wordpiece")).pool
    compared = agreed = 0
    for row, source, at in pairs(data, masked)[::9]:
        with torch.no_grad():
            logits = model(torch.tensor([source["input_ids"]])).logits[0, torch.from_numpy(at)]
        wanted = pool[logits[:, torch.from_numpy(pool).long()].argmax(1).numpy()]
        compared, agreed = compared + len(wanted), agreed + int((wanted == np.array(row["input_ids"])[at]).sum())
    # Padding changes the last bits of a logit, and two may be all but equal.
    assert compared > 100 and agreed >= 0.99 * compared


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert", "electra", "distilbert"])
def test_logits_at_labels_are_those_of_the_whole_model(kind: str, tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_ids(
        40, ids={"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}, special=range(5), name="small"
    )
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    if kind == "distilbert":
        sizes = {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
    extra = {"embedding_size": 8} if kind == "electra" else {}
    config = AutoConfig.for_model(kind, vocab_size=40, pad_token_id=0, max_position_embeddings=32, **sizes, **extra)
    torch.manual_seed(2)
    whole = AutoModelForMaskedLM.from_config(config).eval()
    whole.save_pretrained(tmp_path / kind)
    model = GeneratorModel(Generator(str(tmp_path / kind), None, str(tmp_path / kind), "", 1.0), vocabulary, "cpu")
    ids = Ragged.from_rows([[2, 9, 4, 7, 3], [2, 4, 3], [2, 8, 8, 4, 6, 4, 3]])
    labels = Ragged.from_rows([[-100, -100, 8, -100, -100], [-100, 6, -100], [-100, -100, -100, 7, -100, 9, -100]])
    found = model.logits(ids, labels, np.array([1, 0, 2]))
    with torch.no_grad():
        own = [
            whole(torch.tensor([ids.row(i).tolist()]).long()).logits[0, labels.row(i) != IGNORE, 5:] for i in (1, 0, 2)
        ]
    assert torch.allclose(found, torch.cat(own), atol=1e-5)
    assert not any(parameter.requires_grad for parameter in model._model.parameters()) and not model._model.training


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_O2_samples_follow_softmax_of_logits_by_temperature(temperature: float) -> None:
    random = np.random.default_rng(3)
    row = torch.from_numpy(random.normal(0, 2, 700)).float()
    row[::7] = -torch.inf
    n = 200_000
    share = np.exp(row.double().numpy() / temperature)
    share /= share.sum()
    drawn = np.zeros(700)
    for part in np.array_split(random.random(n), 200):
        drawn += np.bincount(choose(row.expand(len(part), -1), part, temperature), minlength=700)
    assert drawn[::7].sum() == 0
    often = share * n > 20
    observed, expected = np.append(drawn[often], drawn[~often].sum()), np.append(share[often], share[~often].sum()) * n
    assert chisquare(observed, expected).pvalue > 1e-3


def test_the_ends_of_the_unit_interval_draw_tokens_that_have_a_probability() -> None:
    logits = torch.full((3, 600), -torch.inf)
    logits[:, [5, 300, 598]] = torch.tensor([0.0, 1.0, 0.3])
    ends = np.array([0.0, np.nextafter(1.0, 0.0), 0.5])
    assert choose(logits, ends, 1.0).tolist() == [5, 598, 300]
    assert choose(logits, ends, 0.0).tolist() == [300, 300, 300]
    assert choose(logits, ends, 1e-6).tolist() == [300, 300, 300]


def test_uniforms_are_keyed_by_place_and_nothing_else() -> None:
    labels = Ragged.from_rows([[-100, 7, -100, 9], [-100, -100], [8, -100, 3]])
    batch = Batch(np.array([11, 12, 13], np.uint64), {"tokens": labels}, np.array([0, 1, 1], np.uint64))
    found = units(batch, labels, seed=5, epoch=2)
    expected = [
        unit(np.uint64(draw(np.uint64(folded(stream(5, "generator_replace", 2), key, copy)), np.uint64(place))))
        for key, copy, place in ((11, 0, 1), (11, 0, 3), (13, 1, 0), (13, 1, 2))
    ]
    assert found.tolist() == expected
    alone = batch.take(np.array([2]))
    assert units(alone, labels.take(np.array([2])), seed=5, epoch=2).tolist() == expected[2:]
    assert not set(units(batch, labels, seed=5, epoch=3)) & set(expected)


def test_a_lucky_sample_is_real() -> None:
    ids, labels = Ragged.from_rows([[2, 4, 9, 4, 3]]), Ragged.from_rows([[-100, 7, 9, 8, -100]])
    made = replaced({"input_ids": ids, "labels": labels}, np.array([7, 6, 5]))
    assert made["input_ids"].values.tolist() == [2, 7, 6, 5, 3] and made["labels"].values.tolist() == [0, 0, 1, 1, 0]


def test_batches_hold_rows_of_like_length_and_keep_their_bounds() -> None:
    random = np.random.default_rng(1)
    lengths, labelled = random.integers(2, 512, 300), random.integers(0, 60, 300)
    found = list(batches(lengths, labelled, 30_000))
    assert sorted(np.concatenate(found).tolist()) == np.flatnonzero(labelled).tolist()
    for rows in found:
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= 8192
        assert len(rows) == 1 or labelled[rows].sum() * 30_000 <= 1 << 26
    ordered = [lengths[row] for rows in found for row in rows]
    assert ordered == sorted(ordered)


# The same request again


def test_a_rerun_gives_equal_bytes_and_a_finished_one_is_found(place: Path, made: DataSet, tmp_path: Path) -> None:
    again = make(place, tmp_path / "again", copies=2, epochs=2)
    assert contents(again.folder) == contents(made.folder)
    heard = Heard()
    make(place, tmp_path / "again", copies=2, epochs=2, heard=heard)
    assert "is there already" in heard.out


def test_the_size_of_a_shard_changes_no_row(place: Path, made: DataSet, tmp_path: Path) -> None:
    assert rows_of(make(place, tmp_path / "large", copies=2, epochs=2, tokens=None)) == rows_of(made)


def test_temperature_weights_and_the_generator_itself_make_another_data_set(
    place: Path, made: DataSet, masked: DataSet
) -> None:
    for options in ({"temperature": 0.5}, {"model": "uniform"}):
        with pytest.raises(InputError, match=r"holds another finished data set \(other generator\); use another --out"):
            make(place, made.folder, copies=2, epochs=2, **options)
    with pytest.raises(InputError, match="other generator"):
        generate_here(recipe_of(place), made.folder, copies=2, epochs=2)
    with pytest.raises(InputError, match="other generator"):
        make(place, masked.folder, copies=2, epochs=2)
    shutil.copytree(place / "bert", place / "elsewhere")
    assert make(place, made.folder, copies=2, epochs=2, model="elsewhere").identity == made.identity


# Refusals


def refusal(place: Path, model: Path | str, *settings: str, files: str = "parquet", temperature: float = 1.0) -> str:
    with pytest.raises(InputError) as caught:
        open_generator(str(model), temperature, recipe_of(place, *settings), files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_generator_is_refused(place: Path, tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert refusal(place, none) == (
        f"--generator {none}: there is no such folder; give a folder with config.json and weights, "
        "as save_pretrained writes it"
    )
    assert "it is a file; give a folder with" in refusal(place, place / "corpus.txt")
    none.mkdir()
    assert "the folder holds no config.json; give a folder as save_pretrained writes it; of a run" in refusal(
        place, none
    )
    (none / "config.json").write_text("{")
    assert "its config.json cannot be read (" in refusal(place, none)
    (none / "config.json").write_text('{"is_encoder_decoder": true}')
    assert "it is no masked language model of one encoder; give one that is" in refusal(place, none)
    (none / "config.json").write_text("{}")
    assert "the folder holds no weights; give a folder with model.safetensors" in refusal(place, none)


def test_another_vocabulary_is_refused(place: Path, tmp_path: Path) -> None:
    size = len(trained("wordpiece"))
    small = tiny_bert(tmp_path / "small", vocab_size=size - 1)
    told = f"its vocabulary has {size - 1:,} ids, the recipe's tokenizer {size:,}; use a generator and a recipe with"
    assert told in refusal(place, small)
    bare = tiny_bert(tmp_path / "bare", vocab_size=size + 1, tokenizer=False)
    assert f"its vocabulary has {size + 1:,} ids" in refusal(place, bare)
    padded = tiny_bert(tmp_path / "padded", vocab_size=size + 8)
    open_generator(str(padded), 1.0, recipe_of(place), "parquet")
    open_generator(str(tiny_bert(tmp_path / "fits", tokenizer=False)), 1.0, recipe_of(place), "parquet")
    trained("bpe").save_pretrained(padded)
    assert re.search(r"its tokenizer is another: token '.*' has id \S+ there and \S+ in the", refusal(place, padded))
    other = AutoTokenizer.from_pretrained(place / "bert")
    other.mask_token = other.unk_token
    other.save_pretrained(place / "roles")
    tiny_bert(place / "roles", tokenizer=False)
    assert "its tokenizer is another: mask_token has id" in refusal(place, place / "roles")


def test_too_few_positions_are_refused(place: Path, tmp_path: Path) -> None:
    short = tiny_bert(tmp_path / "short", max_position_embeddings=47)
    assert refusal(place, short).endswith(
        "it reads 47 tokens at most, the recipe's examples have up to 48; lower corpus.max_tokens, "
        "or use a generator with more positions"
    )
    config = tmp_path / "short" / "config.json"
    config.write_text('{"model_type": "roberta", "max_position_embeddings": 49, "pad_token_id": 1}')
    assert "it reads 47 tokens at most" in refusal(place, short)


def test_recipes_and_options_that_do_not_fit_are_refused(place: Path) -> None:
    bert = place / "bert"
    assert refusal(place, bert, files="jsonl") == (
        "--format: a generator's samples are token ids, which --format jsonl does not hold; "
        "use parquet, or leave --generator out"
    )
    text = (place / "stored.yaml").read_text()
    seq2seq = text.replace("{kind: mask}", "{kind: infill}").replace("kind: mlm", "kind: seq2seq")
    (place / "seq2seq.yaml").write_text(
        "\n".join(line for line in seq2seq.splitlines() if line[:5] not in ("model", "train"))
    )
    with pytest.raises(InputError, match=r"objective.kind: seq2seq frames its examples as 'encoder_decoder', a gener"):
        open_generator(str(bert), 1.0, load_recipe(place / "seq2seq.yaml"), "parquet")
    for wrong in (float("nan"), -1.0, 1e-9):
        assert refusal(place, bert, temperature=wrong) == f"--temperature: {wrong} is none; give 0, or 1e-06 or more"
    with pytest.raises(InputError, match="--temperature: it does nothing without --generator; leave it out"):
        generate_here(recipe_of(place), place / "nothing", temperature=1.0)


def test_a_model_that_cannot_be_loaded_is_one_line_and_its_shards_can_be_gone_on_with(
    place: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(place / "bert", place / "headless")
    weights = {k: v for k, v in load_file(place / "bert" / "model.safetensors").items() if not k.startswith("cls.")}
    save_file(weights, place / "headless" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"^--generator .*headless: \d+ of its weights are missing, first cls\."):
        make(place, tmp_path / "out", model="headless")
    (place / "headless" / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"^--generator .*headless: it cannot be loaded \("):
        make(place, tmp_path / "other", model="headless")


def test_verify_holds_the_labels_against_the_store(made: DataSet, place: Path, tmp_path: Path) -> None:
    code, text = said(made.folder, store=place / "store")
    assert code == 0 and {"replaced tokens", "same as the source", "counts", "frame"} <= laws(text, "ok"), text
    assert "not checked  the noise of the generator: a model sampled it" in text
    code, text = said(made.folder)
    assert code == 0 and "not checked  replaced tokens: which tokens are the originals is not known" in text


def test_verify_finds_a_label_wrong_for_an_equal_token(made: DataSet, place: Path, tmp_path: Path) -> None:
    data = copied(made, tmp_path / "copy")

    def change(rows: dict) -> None:
        rows["labels"][2][rows["labels"][2].index(0, 1)] = 1

    tampered(data, 0, change)
    code, text = said(data.folder, store=place / "store")
    assert code == 1 and laws(text, "BREACH") == {"replaced tokens", "counts"}
    assert f"{data.shards()[0]['name']}, row 2, position" in text and "labelled as replaced, but" in text
    assert laws(said(data.folder)[1], "BREACH") == {"counts"}


def test_verify_finds_a_token_changed_where_none_was_selected(made: DataSet, place: Path, tmp_path: Path) -> None:
    data = copied(made, tmp_path / "copy")
    fake = trained("wordpiece").convert_tokens_to_ids("the")

    def change(rows: dict) -> None:
        ids, labels = rows["input_ids"][3], rows["labels"][3]
        for at in range(1, len(ids) - 1):
            if labels[at] == 0 and ids[at] != fake:
                ids[at], labels[at] = fake, 1

    tampered(data, 0, change)
    code, text = said(data.folder, store=place / "store")
    assert code == 1 and laws(text, "BREACH") == {"same as the source", "counts"}
    assert "row 3, position" in text and "was not selected" in text


# The command, and what learns from its data


def test_the_command_makes_what_the_plain_loop_makes_and_electra_learns_from_it(
    place: Path, made: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from datasets import load_dataset

    monkeypatch.chdir(tmp_path)
    command = ["generate", str(place / "stored.yaml"), "--out", "out", "--generator", str(place / "bert")]
    assert cli._outcome([*command, "--temperature", "1", "--workers", "1", "--set", "cluster.gpus=false"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"  replaced [\d,]+ of [\d,]+ selected tokens, share 0\.\d{4}\n", said)
    data = open_data_set(tmp_path / "out")
    loop = make(place, tmp_path / "loop", tokens=None)
    assert contents(data.folder / DATA) == contents(loop.folder / DATA) and data.manifest == loop.manifest

    rows = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"), split="train[:16]")
    longest = max(map(len, rows["input_ids"]))
    ids, labels, mask = (torch.zeros(16, longest, dtype=torch.int64) for _ in range(3))
    for i, row in enumerate(rows):
        n = len(row["input_ids"])
        ids[i, :n], labels[i, :n], mask[i, :n] = torch.tensor(row["input_ids"]), torch.tensor(row["labels"]), 1
    torch.manual_seed(4)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ElectraConfig(vocab_size=len(trained("wordpiece")), embedding_size=16, hidden_dropout_prob=0.0, **sizes)
    model = ElectraForPreTraining(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    before = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    before.backward()
    optimizer.step()
    after = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    assert after.item() < before.item() and before.item() == pytest.approx(np.log(2), abs=0.1)

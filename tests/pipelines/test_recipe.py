from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel

from corruption import Mask
from corruption.errors import InputError
from pipelines.recipe import Recipe, load_recipe, recipe_path
from pipelines.recipe_faults import valid_names
from pipelines.shipped import FOLDER, describe, shipped_recipes, shipped_text
from trainers.objectives.columns import OBJECTIVE_COLUMNS

TEXT = """\
seed: 7
corpus: {source: "texts/*.txt", documents: line, max_tokens: 64}
tokenizer: {train: {kind: wordpiece, vocab_size: 500}}
corruption:
  - {kind: mask, rate: 0.15}
objective: {kind: mlm}
model: {kind: bert, layers: 2, width: 32, heads: 2}
train: {steps: 20, decay_steps: 20, tokens_per_step: 512, microbatch_tokens: 128, learning_rate: 1e-3}
"""


@pytest.fixture
def load(tmp_path):
    """A recipe of TEXT with one replacement and overrides."""

    def load(old="", new="", *settings):
        assert old in TEXT
        path = tmp_path / "my recipe.yaml"
        path.write_text(TEXT.replace(old, new, 1), "utf-8")
        return load_recipe(path, settings)

    return load


@pytest.fixture
def refusal(load, tmp_path):
    """The message of a refused recipe, without the folder."""

    def refusal(*how):
        with pytest.raises(InputError) as error:
            load(*how)
        return str(error.value).replace(f"{tmp_path}/my recipe.yaml", "R")

    return refusal


def test_a_recipe_is_typed_and_complete(load):
    recipe = load()
    assert recipe.name == "my-recipe"
    assert recipe.seed == 7 and recipe.corpus.max_tokens == 64
    assert recipe.corpus.sources[0].source == "texts/*.txt" and recipe.corpus.sources[0].documents == "line"
    assert recipe.chain().steps == (Mask(rate=0.15),) and recipe.chain().names == ("mask",)
    assert recipe.train.lanes == 4 and recipe.train.learning_rate == 0.001
    assert (
        recipe.cluster.trainers == 1
        and recipe.cluster.corruptors == "auto"
        and recipe.cluster.chunk_steps == 16
    )
    assert recipe.sampler.window_row_groups == 8 and recipe.tracking.uri is None


def test_a_recipe_is_frozen_and_travels(load):
    recipe = load()
    with pytest.raises(ValueError, match="frozen"):
        recipe.seed = 1
    again = pickle.loads(pickle.dumps(recipe))
    assert again == recipe and again.name == recipe.name
    assert Recipe.model_validate_json(recipe.canonical()).canonical() == recipe.canonical()


def test_numbers_with_underscores_and_exponents(load):
    recipe = load("", "", "train.steps=1_000_000", "train.decay_steps=1e5", "train.learning_rate=4e-4")
    assert (recipe.train.steps, recipe.train.decay_steps, recipe.train.learning_rate) == (
        1_000_000,
        100_000,
        0.0004,
    )


def test_defaults_and_values_written_out_are_equal(load):
    plain, out = (
        load(),
        load("{kind: mask, rate: 0.15}", "{name: mask, kind: mask, unit: token, rate: 1.5e-1}"),
    )
    assert plain.canonical() == out.canonical() and plain.flat() == out.flat()


def test_flat_names_steps_and_sources_by_name(load):
    several = "{sources: [{source: a, name: wiki, weight: 2}, {source: [b, c], name: news}], max_tokens: 64}"
    old = 'corpus: {source: "texts/*.txt", documents: line, max_tokens: 64}'
    flat = load(old, f"corpus: {several}").flat()
    assert flat["corpus.sources.wiki.weight"] == 2.0
    assert (flat["corpus.sources.news.source.0"], flat["corpus.sources.news.source.1"]) == ("b", "c")
    assert flat["corruption.mask.rate"] == 0.15 and flat["seed"] == 7
    assert all(not isinstance(value, (dict, list)) for value in flat.values())
    json.dumps(flat, allow_nan=False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # unknown keys: the nearest valid name
        ("steps: 20", "stepz: 20", "R:8: train.stepz is no key of a recipe; did you mean 'steps'? (+1 more)"),
        ("seed: 7", "seedd: 7", "R:1: seedd is no key of a recipe; did you mean 'seed'?"),
        (
            "documents: line",
            "docs: line",
            "R:2: corpus.docs is no key of a recipe; did you mean 'documents'?",
        ),
        (
            "max_tokens: 64",
            "max_token: 64",
            "R:2: corpus.max_token is no key of a recipe; did you mean 'max_tokens'?",
        ),
        ("rate: 0.15", "ratio: 0.15", "R:5: corruption.0.ratio: unknown field; did you mean 'rate'?"),
        ("kind: mask", "kind: msk", "R:5: corruption.0: unknown kind 'msk'; did you mean 'mask'?"),
        ("kind: mlm", "kind: mln", "R:6: objective.kind: unknown kind 'mln'; did you mean 'mlm'?"),
        # wrong types: nothing is guessed
        ("seed: 7", "seed: true", "R:1: seed = true; must be a whole number"),
        ("seed: 7", 'seed: "7"', "R:1: seed = '7'; must be a whole number"),
        ("steps: 20", "steps: 2.5", "R:8: train.steps = 2.5; must be a whole number"),
        ("documents: line", "documents: 3", "R:2: corpus.documents = 3; must be 'file', 'line' or 'block'"),
        ('source: "texts/*.txt"', "source: 3", "R:2: corpus.source = 3; must be text or a list"),
        ("objective: {kind: mlm}", "objective: mlm", "R:6: objective = 'mlm'; must be a mapping of keys"),
        ("learning_rate: 1e-3", "learning_rate: fast", "R:8: train.learning_rate = 'fast'; must be a number"),
        ("rate: 0.15", "rate: much", "R:5: corruption.0.rate: 'much' is not of type float"),
        # wrong ranges
        ("seed: 7", "seed: -1", "R:1: seed = -1; must be greater than or equal to 0"),
        ("steps: 20", "steps: 0", "R:8: train.steps = 0; must be greater than 0"),
        (
            "vocab_size: 500",
            "vocab_size: 5",
            "R:3: tokenizer.train.vocab_size = 5; must be greater than or",
        ),
        ("width: 32", "width: 33", "R:7: model.width: 33 is no multiple of model.heads 2"),
        # missing
        ("decay_steps: 20, ", "", "R:8: train.decay_steps is missing; add it"),
        ("objective: {kind: mlm}\n", "", "R: objective is missing; add it"),
        (
            "layers: 2, ",
            "",
            "R:7: model.layers: not given, and there is no model.init; give the size of the model",
        ),
        (
            "tokenizer: {train: {kind: wordpiece, vocab_size: 500}}\n",
            "",
            "R: tokenizer: is missing; give path",
        ),
        # things that do not fit together
        (
            "microbatch_tokens: 128",
            "microbatch_tokens: 100",
            "R:8: train.tokens_per_step: 512 is no multiple of",
        ),
        (
            "max_tokens: 64",
            "max_tokens: 256",
            "R:8: train.microbatch_tokens: 128 is below corpus.max_tokens 256",
        ),
        ("{train:", "{path: x, train:", "R:3: tokenizer has both path and train; give path"),
        (
            'source: "texts/*.txt"',
            "source: a, store: b",
            "R:2: corpus gives more than one of source, sources and store",
        ),
        (
            'source: "texts/*.txt", documents: line',
            "store: s",
            "R:3: tokenizer: is given, but a store brings its own",
        ),
        (
            'source: "texts/*.txt", documents: line, ',
            "",
            "R:2: corpus names no text; give one of source, sources and",
        ),
        (
            "  - {kind: mask, rate: 0.15}",
            "  []",
            "R:6: objective.kind: mlm reads the column 'labels', which no",
        ),
        (
            "  - {kind: mask, rate: 0.15}",
            "  - {kind: mask}\n  - {kind: mask}",
            "R:4: corruption: a second step is called",
        ),
        ("rate: 0.15", "name: a b", "R:5: corruption.0.name: 'a b' is no name of a step"),
    ],
)
def test_refusals_name_line_key_value_and_what_is_allowed(refusal, old, new, message):
    found = refusal(old, new)
    assert found.startswith(message)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "mask_share: 1.5",
            "R:5: corruption.0.mask_share: 1.5 is outside 0 to 1; give a share between 0 and 1",
        ),
        ("mask_share: -0.1", "R:5: corruption.0.mask_share: -0.1 is outside 0 to 1"),
        ("mask_share: 0.95", "0.95 + 0.1 is above 1; lower one of them"),
        ("random_share: 0.3", "0.8 + 0.3 is above 1; lower one of them"),
        ("rate: 15", "R:5: corruption.0.rate: 15.0 is outside 0 to 1"),
        ("unit: words", "R:5: corruption.0.unit: unknown value 'words'; did you mean 'word'?"),
    ],
)
def test_A_05_shares_out_of_range_are_refused_when_the_recipe_is_read(refusal, fields, message):
    assert message in refusal("rate: 0.15", fields)


def test_A_05_shares_that_are_taken_reach_the_corruption(load):
    step = load("rate: 0.15", "rate: 0.5, mask_share: 0.0, random_share: 1.0").chain().steps[0]
    assert (step.rate, step.mask_share, step.random_share) == (0.5, 0.0, 1.0)


DATA = """
corpus:     {source: a.txt, max_tokens: 64}
tokenizer:  {train: {kind: unigram, vocab_size: 500}}
corruption: []
objective:  {kind: seq2seq}
"""


def test_a_recipe_that_only_makes_data_needs_no_model_and_cannot_be_trained(tmp_path):
    path = tmp_path / "data.yaml"
    path.write_text(DATA, "utf-8")
    recipe = load_recipe(path)
    assert recipe.model is None and recipe.train is None and recipe.content_tokens() == 62
    with pytest.raises(InputError) as raised:
        recipe.for_training()
    assert str(raised.value) == "recipe data: model: it has no such section, so nothing can be trained; add it"


def test_an_objective_that_cannot_be_trained_yet_says_so(load):
    recipe = load("kind: mlm", "kind: seq2seq")
    with pytest.raises(InputError, match="'seq2seq' cannot be trained yet; choose one of mlm, or use the recipe with"):
        recipe.for_training()


def test_what_an_objective_reads_and_nothing_provides_is_named_with_the_kind_to_add(refusal):
    assert refusal("kind: mlm", "kind: infonce") == (
        "R:6: objective.kind: infonce reads the column 'positive', which no corruption here provides; "
        "add one that does, such as {kind: views}"
    )


@pytest.mark.parametrize(("kind", "extra"), [("mlm", 2), ("seq2seq", 2)])
def test_content_is_what_special_tokens_leave(load, kind, extra):
    recipe = load("kind: mlm", f"kind: {kind}")
    assert recipe.content_tokens() == recipe.corpus.max_tokens - extra


def test_H_07_a_run_is_given_in_steps(refusal):
    assert refusal("steps: 20,", "steps: 7, epochs: 2,") == (
        "R:8: train.epochs is no key of a recipe; "
        "give the run in train.steps; pretrain --dry-run prints the epochs that makes"
    )


def test_more_trainers_than_microbatches_are_refused_with_the_numbers(refusal, load):
    assert load("", "", "cluster.trainers=4").cluster.trainers == 4
    assert refusal("", "", "cluster.trainers=5") == (
        "--set cluster.trainers=5: cluster.trainers: 5 trainers share 4 microbatches a step "
        "(train.tokens_per_step 512 / train.microbatch_tokens 128); "
        "use fewer trainers or smaller microbatches"
    )


def test_overrides_are_named_in_refusals(refusal):
    assert (
        refusal("", "", "train.stps=5")
        == "--set train.stps=5: train.stps is no key of a recipe; did you mean 'steps'?"
    )
    assert refusal("", "", "corruption.mask.rate=2").startswith(
        "--set corruption.mask.rate=2: corruption.0.rate: 2.0 is"
    )
    assert (
        refusal("", "", "cluster.gpus=5")
        == "--set cluster.gpus=5: cluster.gpus = 5; must be 'auto' or true or false"
    )


def test_several_faults_are_one_line_that_says_how_many(refusal):
    found = refusal("", "", "seed=x", "cluster.trainers=0", "train.nope=1")
    assert found.startswith("--set train.nope=1: train.nope is no key of a recipe; choose one of betas, ")
    assert found.endswith("weight_decay (+2 more)")


def test_several_sources_need_names(refusal):
    old = 'source: "texts/*.txt", documents: line'
    assert "has a source without a name" in refusal(old, "sources: [{source: a}, {source: b}]")
    assert "two sources called 'x'" in refusal(old, "sources: [{source: a, name: x}, {source: b, name: x}]")
    assert refusal(old, "sources: [{source: a, name: x}, {source: b, nam: y}]").startswith(
        "R:2: corpus.sources.1.nam is no key of a recipe; did you mean 'name'?"
    )


def test_a_store_needs_no_tokenizer(load):
    recipe = load(
        'corpus: {source: "texts/*.txt", documents: line, max_tokens: 64}\n'
        "tokenizer: {train: {kind: wordpiece, vocab_size: 500}}\n",
        "corpus: {store: stores/abc, max_tokens: 64}\n",
    )
    assert recipe.corpus.store == "stores/abc" and recipe.corpus.sources == ()


def test_H_09_recipes_are_found_by_name_path_and_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "d s"
    folder.mkdir()
    (folder / "-x é.yaml").write_text(TEXT, "utf-8")
    (tmp_path / "link.yaml").symlink_to(folder / "-x é.yaml")
    assert load_recipe("~/d s/-x é.yaml").name == "x-é"
    assert load_recipe("d s/-x é.yaml").seed == 7
    assert load_recipe(Path("link.yaml")).name == "link"
    (tmp_path / "demo").mkdir()
    assert recipe_path("demo").name == "demo.yaml"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d s", "demo", "link.yaml"]
    with pytest.raises(InputError, match=r"recipe 'd s': is a folder"):
        load_recipe("d s")
    with pytest.raises(
        InputError, match=r"recipe 'dmo': is neither a file nor a shipped recipe; did you mean 'demo'"
    ):
        load_recipe("dmo")


def test_packaged_corpora_are_found_or_named_with_their_extra(load, tmp_path, monkeypatch):
    demo = load_recipe("demo")
    assert demo.corpus.sources[0].source.startswith("package:gensim/")
    (located,) = demo.corpus.located()
    assert Path(located.source).is_file()
    missing = load("", "", "corpus.source=package:no_such_package_here/x.txt")
    with pytest.raises(InputError, match=r"no_such_package_here .* is not installed; install the package"):
        missing.corpus.located()
    with pytest.raises(InputError, match=r"the installed package pydantic has no 'x\.txt'"):
        load("", "", "corpus.source=package:pydantic/x.txt").corpus.located()
    with pytest.raises(InputError, match="write package:module/path/of/file"):
        load("", "", "corpus.source=package:pydantic").corpus.located()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'papermoth\[demo\]'"):
        demo.corpus.located()


def test_shipped_recipes_load_and_name_their_paper():
    named = {
        "bert-128",
        "bert-mlm",
        "demo",
        "modernbert",
        "prefix-lm",
        "roberta",
        "simclr",
        "simcse",
        "t5",
        "ul2",
        "unilm",
        "wwm",
        "xlnet",
    }
    assert named <= set(shipped_recipes()) == {path.stem for path in FOLDER.glob("*.yaml")}
    for name in shipped_recipes():
        recipe = load_recipe(name)
        assert recipe.name == name and recipe.objective.kind in OBJECTIVE_COLUMNS
        assert len(shipped_text(name).splitlines()) <= 25
        comments = [line for line in shipped_text(name).splitlines() if line.startswith("#")]
        assert any("20" in line for line in comments), "no paper is named"
        assert len(describe(name)) < 100
    assert load_recipe("wwm").chain().steps[0].unit == "word"
    assert load_recipe("modernbert").chain().steps[0].rate == 0.3
    demo = load_recipe("demo")
    assert demo.cluster.trainers == 2 and demo.tokenizer.train.lowercase


def test_valid_names_walks_sections_lists_and_unions():
    assert "steps" in valid_names(Recipe, ("train",))
    assert "documents" in valid_names(Recipe, ("corpus", "sources", 0))
    assert "vocab_size" in valid_names(Recipe, ("tokenizer", "train"))


def test_every_section_refuses_unknown_keys_and_is_frozen():
    def sections(model):
        yield model
        for name in model.model_fields:
            for inner in _models(model.model_fields[name].annotation):
                yield from sections(inner)

    def _models(annotation):
        from typing import get_args

        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return [annotation]
        return [model for part in get_args(annotation) for model in _models(part)]

    found = set(sections(Recipe))
    assert len(found) >= 12
    for section in found:
        assert section.model_config.get("extra") == "forbid" and section.model_config.get("frozen"), section

from __future__ import annotations

import pytest

from pipelines.identity import FREE_TRAIN, differing, identity, identity_parts
from pipelines.recipe import load_recipe
from trainers.settings import TrainSettings

TEXT = """\
seed: 0
corpus: {source: texts, max_tokens: 128, row_group_tokens: 16_384}
tokenizer: {train: {kind: wordpiece, vocab_size: 8_000}}
corruption: [{kind: mask}]
objective: {kind: mlm}
model: {kind: bert, layers: 4, width: 256, heads: 4}
train: {steps: 300, decay_steps: 300, tokens_per_step: 8_192, microbatch_tokens: 2_048, learning_rate: 1e-3,
        warmup_steps: 30}
cluster: {trainers: 2}
"""


@pytest.fixture
def of(tmp_path):
    """The identity's parts of TEXT with overrides."""
    path = tmp_path / "r.yaml"
    path.write_text(TEXT, "utf-8")

    def of(*settings, corpus="c0", tokenizer="t0"):
        return identity_parts(load_recipe(path, settings), corpus=corpus, tokenizer=tokenizer)

    return of


@pytest.mark.parametrize(
    "setting",
    [
        "seed=1",
        "corruption.mask.rate=0.2",
        "corruption.mask.name=other",
        "model.layers=5",
        "train.tokens_per_step=4096",
        "train.microbatch_tokens=1024",
        "train.learning_rate=2e-3",
        "train.final_learning_rate=1e-5",
        "train.warmup_steps=31",
        "train.decay_steps=301",
        "train.schedule=cosine",
        "train.precision=bf16",
        "train.weight_decay=0.1",
        "train.betas=[0.9, 0.98]",
        "train.eps=1e-6",
        "train.clip_norm=null",
        "sampler.window_row_groups=4",
        "corpus.row_group_tokens=8192",
        "corpus.max_tokens=64",
        "corpus.held_out=0.02",
    ],
)
def test_what_changes_data_or_weights_changes_the_identity(of, setting):
    assert identity(of(setting)) != identity(of())
    keys = differing(of(setting), of())
    assert keys
    if "name" not in setting:
        assert keys in ([setting.partition("=")[0]], ["train.betas.1"])


@pytest.mark.parametrize(
    "setting",
    [
        "train.steps=900",
        "train.log_every=1",
        "train.evaluate_every=7",
        "train.checkpoint_every=7",
        "train.keep_checkpoints=9",
        "cluster.trainers=1",
        "cluster.chunk_steps=1",
        "tracking.experiment=x",
        "tracking.digests=true",
        "evaluation.held_out_microbatches=3",
        "corpus.source=moved/elsewhere.xml.bz2",
        "tokenizer={path: somewhere}",
    ],
)
def test_what_may_change_on_resume_does_not(of, setting):
    assert identity(of(setting)) == identity(of())


def test_corpus_and_tokenizer_enter_by_what_they_hold(of):
    assert differing(of(corpus="c1"), of()) == ["corpus.manifest"]
    assert differing(of(tokenizer="t1"), of()) == ["tokenizer.fingerprint"]


def test_a_default_hashes_like_the_same_value_written_out(of):
    assert identity(
        of("train.weight_decay=0.01", "corruption.mask.unit=token", "corruption.mask.name=mask")
    ) == identity(of())
    assert identity(of("train.weight_decay=1e-2", "sampler={kind: shuffled}")) == identity(of())
    assert identity(of("sampler=null", "sampler={}")) == identity(of())


def test_the_order_of_steps_is_part_of_it(of):
    a, b = "{kind: mask}", "{kind: rotate}"
    one, other = of(f"corruption=[{a}, {b}]"), of(f"corruption=[{b}, {a}]")
    assert differing(one, other) == ["corruption"]


def test_every_train_key_is_on_one_side(of):
    """A new key of `train` is part of the identity until someone decides that it is free."""
    kept = {key.split(".")[1] for key in of() if key.startswith("train.")}
    assert kept | set(FREE_TRAIN) == set(TrainSettings.model_fields) and not kept & set(FREE_TRAIN)


def test_differing_sees_keys_that_only_one_has():
    assert differing({"a": 1, "b": None}, {"a": 1}) == ["b"]
    assert differing({"a": 1, "b": 2}, {"c": 3, "b": 4}) == ["a", "b", "c"]
    assert differing({}, {}) == []


def test_identity_is_a_golden_value():
    """Changes only with a reason that is written in the changelog: every checkpoint carries one."""
    assert (
        identity({"seed": 0, "train.learning_rate": 0.0004, "é": None}) == "1a40dd6b2e3e80a93e71edc9a3788613"
    )

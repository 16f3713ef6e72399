import math

import pytest
import torch

from corruption.errors import InputError
from corruption.schema import IGNORE
from corruption.vocabulary import Vocabulary
from tests.trainers import tiny
from trainers.models.masked_lm import build_masked_lm


def batch():
    return tiny.microbatch(tiny.lane(0, 3, 9))


def call(module, microbatch):
    return module(
        input_ids=microbatch.columns["input_ids"],
        attention_mask=microbatch.attention_mask,
        labels=microbatch.columns["labels"],
    )


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_loss_and_gradients_are_those_of_the_hugging_face_class(kind):
    ours, theirs = tiny.build(kind).eval(), tiny.build(kind).eval()
    microbatch = batch()
    logits, targets = call(ours, microbatch)
    loss = torch.nn.functional.cross_entropy(logits, targets)
    loss.backward()
    reference = theirs.model(
        input_ids=microbatch.columns["input_ids"],
        attention_mask=microbatch.attention_mask,
        labels=microbatch.columns["labels"],
    )
    reference.loss.backward()
    torch.testing.assert_close(loss, reference.loss, rtol=1e-6, atol=1e-6)
    at = microbatch.columns["labels"] != IGNORE
    torch.testing.assert_close(logits, reference.logits[at], rtol=1e-5, atol=1e-6)
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-7, msg=name)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_gradient_reaches_every_parameter(kind):
    module = tiny.build(kind, config={"local_attention": 4} if kind == "modernbert" else {})
    logits, targets = call(module, batch())
    torch.nn.functional.cross_entropy(logits, targets).backward()
    assert [name for name, p in module.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_seed_decides_the_weights(kind):
    first, again, other = (tiny.copy_of(tiny.build(kind, seed=seed)) for seed in (0, 0, 1))
    assert tiny.same(first, again) and not tiny.same(first, other)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_an_example_as_long_as_max_tokens_fits(kind):
    ids = torch.randint(5, tiny.SIZE, (2, tiny.TOKENS))
    labels = torch.full_like(ids, IGNORE)
    labels[:, -1] = 7
    logits, targets = tiny.build(kind)(ids, torch.ones_like(ids), labels)
    assert logits.shape == (2, tiny.SIZE) and targets.tolist() == [7, 7]


def test_a_microbatch_without_labels_gives_no_logits_but_a_gradient_of_zero():
    module = tiny.build()
    logits, targets = call(module, tiny.microbatch(tiny.lane(0, 3, 0)))
    assert logits.shape == (0, tiny.SIZE) and len(targets) == 0
    logits.sum().backward()
    assert all(not p.grad.any() for p in module.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_first_loss_is_near_the_uniform_one(kind):
    logits, targets = call(tiny.build(kind, seed=5).eval(), tiny.microbatch(tiny.lane(0, 3, 40, rows=12)))
    loss = torch.nn.functional.cross_entropy(logits, targets)
    assert loss.item() == pytest.approx(math.log(tiny.SIZE), abs=0.15)


@pytest.fixture(scope="module", params=tiny.KINDS)
def checkpoint(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    module = tiny.build(request.param, seed=3)
    module.model.save_pretrained(folder)
    return request.param, folder, module


def start(kind, folder, vocabulary=tiny.VOCABULARY, max_tokens=tiny.TOKENS, **fields):
    spec = tiny.ModelSpec(kind=kind, init=str(folder), **fields)
    return build_masked_lm(spec, vocabulary, max_tokens=max_tokens, seed=0)


def test_init_starts_from_the_same_bits(checkpoint):
    kind, folder, module = checkpoint
    loaded = start(kind, folder, layers=2, width=32)
    assert tiny.same(tiny.copy_of(module), tiny.copy_of(loaded))
    assert loaded.model.config._attn_implementation == "sdpa"


def test_init_that_does_not_fit_is_refused_by_name(checkpoint):
    kind, folder, _ = checkpoint
    other = "bert" if kind != "bert" else "roberta"
    with pytest.raises(InputError, match=f"it is of kind '{kind}', the recipe says '{other}'"):
        start(other, folder)
    with pytest.raises(InputError, match=r"model.layers: 3, but .* has 2; remove it or change init"):
        start(kind, folder, layers=3)
    with pytest.raises(InputError, match=r"model.config.initializer_range: 0.5, but .* has 0.02"):
        start(kind, folder, config={"initializer_range": 0.5})
    with pytest.raises(InputError, match="17 framed tokens, but the model has 16 positions"):
        start(kind, folder, max_tokens=17)


def test_A_19_init_with_another_vocabulary_is_refused(checkpoint):
    kind, folder, _ = checkpoint
    larger = Vocabulary.from_ids(65, ids={"pad": 1}, special=range(5))
    with pytest.raises(InputError, match="the tokenizer has 65 ids, the checkpoint embeds 64"):
        start(kind, folder, larger)
    shifted = Vocabulary.from_ids(64, ids={"pad": 0}, special=range(5))
    with pytest.raises(InputError, match="its pad_token_id is 1, the tokenizer's is 0"):
        start(kind, folder, shifted)
    smaller = Vocabulary.from_ids(60, ids={"pad": 1}, special=range(5))
    assert start(kind, folder, smaller).model.config.vocab_size == 64  # kept, never cut


def test_init_may_change_dropout(checkpoint):
    kind, folder, module = checkpoint
    loaded = start(kind, folder, dropout=0.3)
    assert all(p in (0.0, 0.3) for p in (m.p for m in loaded.modules() if isinstance(m, torch.nn.Dropout)))
    assert tiny.same(tiny.copy_of(module), tiny.copy_of(loaded))


def test_init_from_an_encoder_draws_a_head_from_the_seed_and_says_so(tmp_path, caplog):
    module = tiny.build("bert", seed=3)
    module.model.bert.save_pretrained(tmp_path)
    first, again = start("bert", tmp_path), start("bert", tmp_path)
    assert tiny.same(tiny.copy_of(first), tiny.copy_of(again))
    assert torch.equal(
        first.model.bert.embeddings.word_embeddings.weight, module.model.cls.predictions.decoder.weight
    )
    assert "it has no prediction head" in caplog.text


def test_init_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"model.init .*nowhere: no such folder"):
        start("bert", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="its configuration cannot be read"):
        start("bert", tmp_path / "empty")
    tiny.build().model.config.save_pretrained(tmp_path / "empty")
    with pytest.raises(InputError, match="its weights cannot be loaded") as caught:
        start("bert", tmp_path / "empty")
    assert "\n" not in str(caught.value)

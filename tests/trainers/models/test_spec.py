import subprocess
import sys

import pytest
from pydantic import ValidationError

from corruption.errors import InputError
from tests.trainers import tiny
from trainers.models.hf_config import new_config
from trainers.models.size import model_size
from trainers.models.spec import ModelSpec


def test_sizes_reach_the_hugging_face_configuration():
    config = new_config(tiny.spec("roberta", intermediate=48), tiny.VOCABULARY, 16)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (2, 32, 2)
    assert config.intermediate_size == 48 and config.vocab_size == 64
    assert config.max_position_embeddings == 16 + 2  # RoBERTa counts from pad id + 1
    assert new_config(tiny.spec("bert"), tiny.VOCABULARY, 16).intermediate_size == 128
    modern = new_config(tiny.spec("modernbert", dropout=None), tiny.VOCABULARY, 16)
    assert modern.intermediate_size == 48 and modern.mlp_dropout == 0.0
    assert modern.pad_token_id == 1 and modern.cls_token_id == 2 and modern.bos_token_id is None
    assert new_config(tiny.spec("bert", dropout=None), tiny.VOCABULARY, 16).hidden_dropout_prob == 0.1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": None}, "model.heads: not given, and there is no model.init; give the size of the model"),
        ({"width": 33}, "model.width: 33 is no multiple of model.heads 2; use 32 or another number of heads"),
        ({"kind": "modernbert", "width": 6}, "model.heads: 3 dimensions a head"),
        ({"config": {"hidden_sice": 3}}, "model.config.hidden_sice: BertConfig has no such field"),
        ({"config": {"layer_norm_epsilon": 3}}, "did you mean 'layer_norm_eps'"),
        ({"config": {"hidden_size": 3}}, "follows from model.width; remove it and set model.width"),
        ({"config": {"classifier_dropout": 0.1}}, "it has no effect"),
        ({"layer": 3}, "Extra inputs are not permitted"),
        ({"kind": "gpt"}, "'bert', 'roberta' or 'modernbert'"),
    ],
)
def test_what_does_not_fit_is_refused(fields, message):
    with pytest.raises(ValidationError) as caught:
        tiny.spec(**fields)
    assert message in str(caught.value)


def test_values_the_class_refuses_and_too_few_positions():
    with pytest.raises(InputError, match="model: BertConfig refuses it"):
        new_config(tiny.spec(config={"layer_norm_eps": "much"}), tiny.VOCABULARY, 16)
    with pytest.raises(
        InputError, match=r"corpus\.max_tokens: 16 framed tokens, but the model has 8 positions"
    ):
        new_config(tiny.spec(max_positions=8), tiny.VOCABULARY, 16)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_size_counts_what_is_built(kind):
    size = model_size(tiny.spec(kind), tiny.VOCABULARY, 16)
    module = tiny.build(kind)
    assert size.parameters == sum(p.numel() for p in module.parameters())
    assert size.state_bytes == 16 * size.parameters
    assert size.flops_per_token(0.0) == 6 * size.matrices + 12 * 32 * 32  # 2 layers, 16 tokens each
    assert size.flops_per_token(0.5) - size.flops_per_token(0.0) == 3 * (32 * 32 + 32 * 64)


def test_size_of_bert_base_is_the_published_one():
    vocabulary = type("V", (), {"size": 30522, "bos": None, "eos": None, "need": lambda *_: 0})()
    size = model_size(ModelSpec(kind="bert", layers=12, width=768, heads=12), vocabulary, 512)
    assert size.parameters == 109_514_298  # BERT base with its masked LM head, without the pooler


def test_the_recipe_side_needs_no_torch():
    modules = "trainers.settings, trainers.models.spec, trainers.objectives.columns, trainers.step"
    code = f"import sys, {modules}; print(sorted({{'torch', 'transformers', 'ray'}} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

from tests.trainers import tiny
from trainers.export import export


def tokenizer():
    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(5, tiny.SIZE))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ("unk", "pad", "cls", "sep", "mask")
    return PreTrainedTokenizerFast(tokenizer_object=inner, **{f"{n}_token": f"[{n.upper()}]" for n in names})


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_from_pretrained_loads_what_was_trained(kind, tmp_path):
    module = tiny.build(kind)
    tiny.run(module, tiny.steps(), chosen=tiny.settings(2))
    folder = export(module, tmp_path / "model", tokenizer(), "# A model\n")
    loaded, found = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not any(found[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    ids = torch.randint(5, tiny.SIZE, (2, 9))
    with torch.no_grad():
        assert torch.equal(loaded.eval()(ids).logits, module.eval().model(ids).logits)
    assert AutoTokenizer.from_pretrained(folder)("w7 w9").input_ids == [7, 9]
    assert (folder / "README.md").read_text() == "# A model\n"
    assert (folder / "model.safetensors").is_file() and (folder / "config.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_replaces_the_one_before(tmp_path):
    folder = tmp_path / "model"
    export(tiny.build(), folder, tokenizer(), "old")
    (folder / "stray").touch()
    export(tiny.build(), folder, tokenizer(), "new")
    assert (folder / "README.md").read_text() == "new" and not (folder / "stray").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

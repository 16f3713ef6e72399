"""A folder with one broken file of every kind next to good ones: every good row is used, the rest is counted."""

from __future__ import annotations

import bz2
import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import zstandard

from tests.end_to_end.tiny import papermoth

GOOD = [f"A good sentence number {i} about moths and paper. It has a second sentence, too." for i in range(40)]
RECIPE = """
corpus:     {{source: "{source}", max_tokens: 48}}
tokenizer:  {{path: "{tokenizer}"}}
corruption: [{{kind: mask}}]
objective:  {{kind: mlm}}
model:      {{kind: bert, layers: 1, width: 32, heads: 2}}
train:      {{steps: 1, decay_steps: 10, tokens_per_step: 512, microbatch_tokens: 512, learning_rate: 1.0e-3}}
"""


def line(**row: object) -> bytes:
    return (json.dumps(row) + "\n").encode()


def write_folder(folder: Path) -> tuple[int, Counter[str]]:
    """Writes the files; returns the number of good rows and the reasons that the report must count."""
    folder.mkdir()
    good = b"".join(line(text=text) for text in GOOD)
    (folder / "good.jsonl").write_bytes(good)
    (folder / "good.jsonl.zst").write_bytes(zstandard.compress(line(text="in a zstd frame")) * 2)
    two = gzip.compress(line(text="first")) + gzip.compress(line(text="second"))
    (folder / "two_members.jsonl.gz").write_bytes(two)
    (folder / "bom.jsonl").write_bytes(b"\xef\xbb\xbf" + line(text="after a byte order mark"))
    (folder / "separator.jsonl").write_bytes('{"text": "one\u2028row"}\n'.encode())
    (folder / "surrogate.jsonl").write_bytes(b'{"text": "bad \\ud83d end"}\n')
    (folder / "types.jsonl").write_bytes(line(text=5) + line(text=["x"]) + line(text="007"))
    (folder / "nothing.jsonl").write_bytes(line(text=None) + line(other="x") + line(text="  ") + line(text="null"))
    (folder / "bytes.jsonl").write_bytes(line(text="before") + b'{"text": "bad \xff"}\n' + line(text="after"))
    (folder / "broken.jsonl").write_bytes(line(text="whole") + b'{"text": "torn\n')
    (folder / "array.jsonl").write_bytes(b'[{"text": "a"},\n {"text": "b"}]')
    cut = gzip.compress(b"".join(line(text=text, n=i) for i, text in enumerate(GOOD * 50)))
    (folder / "cut.jsonl.gz").write_bytes(cut[: len(cut) - 9])
    (folder / "named.jsonl.gz").write_bytes(good)
    whole = bz2.compress(line(text="a bz2 row"))
    (folder / "garbage.jsonl.bz2").write_bytes(whole + b"garbage")
    (folder / "empty.jsonl").write_bytes(b"")
    pq.write_table(pq.read_table(_parquet(folder / "table.parquet")), folder / "cut.parquet")
    (folder / "cut.parquet").write_bytes((folder / "cut.parquet").read_bytes()[:-20])
    used = len(GOOD) + 2 + 2 + 1 + 1 + 1 + 1 + 1 + 2 + 1 + len(GOOD) * 50 + 1 + 1
    return used, Counter(not_text=2, null=1, missing=1, empty=1, invalid_utf8=1, invalid_json=1, json_array=1)


def _parquet(path: Path) -> Path:
    import pyarrow as pa

    pq.write_table(pa.table({"text": ["a row of a table"]}), path, write_page_checksum=True)
    return path


def make_recipe(folder: Path, source: Path, tokenizer: Path) -> Path:
    path = folder / f"{source.name}.yaml"
    path.write_text(RECIPE.format(source=source, tokenizer=tokenizer))
    return path


def make_tokenizer(folder: Path) -> Path:
    from pipelines.tokenizers import train_tokenizer

    train_tokenizer(iter(GOOD * 3), "wordpiece", 200, lowercase=True).save_pretrained(folder)
    return folder


def test_every_good_row_is_used_and_every_bad_one_is_counted(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    used, reasons = write_folder(tmp_path / "mixed")
    recipe = make_recipe(tmp_path, tmp_path / "mixed", tokenizer)

    done = papermoth("prepare", recipe, "--out", "store", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    tally = manifest["tally"]
    faults = [json.loads(row) for row in (tmp_path / "store" / "quarantine.jsonl").read_text().splitlines()]
    named = {fault["file"] for fault in faults}
    assert tally["rows"] == tally["documents"] + sum(tally["rejects"].values()) + sum(tally["expected"].values())
    assert tally["documents"] == used
    assert manifest["passages"]["train"] + manifest["passages"]["held_out"] >= used
    for reason, count in reasons.items():
        assert tally["rejects"].get(reason, 0) + tally["expected"].get(reason, 0) == count, (reason, tally)
    assert tally["notes"] == {"lone_surrogate": 1}
    for broken in ("cut.jsonl.gz", "named.jsonl.gz", "garbage.jsonl.bz2", "array.jsonl", "cut.parquet"):
        assert broken in named, (broken, faults)
    assert "rejected:" in done.stdout and "quarantine.jsonl" in done.stderr

    strict = papermoth("prepare", recipe, "--out", "store", "--strict", cwd=tmp_path)
    assert strict.returncode == 1
    assert "--strict" in strict.stderr


def test_nothing_usable_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "rows.jsonl").write_bytes(line(text=None) + line(text=7) + b"{torn\n")
    recipe = make_recipe(tmp_path, tmp_path / "bad", tokenizer)
    done = papermoth("prepare", recipe, "--out", "store", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "none of the 3 rows read can be used" in last and "not_text" in last
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


def test_no_file_matches(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(tmp_path / "tokenizer")
    recipe = make_recipe(tmp_path, tmp_path / "nothing-here-*.txt", tokenizer)
    done = papermoth("prepare", recipe, cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing-here-*.txt" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "stores").exists()

"""A corruption that another package brings: installed by pip, it is in recipes, doors, previews and checks at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "papermoth-swap"
version = "1.0"
[project.entry-points."papermoth.corruptions"]
swap = "papermoth_swap"
[tool.setuptools]
py-modules = ["papermoth_swap"]
"""
MODULE = '''
"""Neighbours change places: 2i with 2i + 1, where a coin says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from corruption import InputError, Ragged, register
from corruption.edit import take
from corruption.noise import draw, fold, unit


@njit(cache=True, nogil=True)
def swap_rows(offsets, prefix, keys, copies, rate, index):
    for row in range(len(keys)):
        stream = fold(fold(prefix, keys[row]), copies[row])
        n = offsets[row + 1] - offsets[row]
        for i in range(n):
            index[offsets[row] + i] = i
        for pair in range(n // 2):
            if unit(draw(stream, np.uint64(pair))) < rate:
                at = offsets[row] + 2 * pair
                index[at], index[at + 1] = index[at + 1], index[at]


@register
@dataclass(frozen=True)
class Swap:
    """Swap neighbours."""

    kind: ClassVar[str] = "swap"
    provides: ClassVar[tuple[str, ...]] = ()
    moves: ClassVar[bool] = True
    breaks: ClassVar[tuple[str, ...]] = ("word_start", "sentence_start")
    rate: float = 0.5

    def __post_init__(self):
        if not 0 <= self.rate <= 1:
            raise InputError("swap.rate", f"{self.rate} is outside 0 to 1", "give a share between 0 and 1")

    def needs(self):
        return ("tokens",)

    def bounds(self, length: int) -> Mapping[str, int]:
        return {"tokens": length}

    def check(self, vocabulary, longest=None):
        pass

    def apply(self, batch, noise, vocabulary):
        tokens = batch.tokens
        index = np.empty(len(tokens.values), np.int32)
        swap_rows(tokens.offsets, noise.prefix, batch.keys, batch.copies, self.rate, index)
        return take(batch, Ragged.of(index, tokens.offsets))
'''
USE = """
import json, sys
from corruption.chain import Chain
from corruption.registry import kinds
from tests.corruption import block
from tests.corruption.rows import RICH, digest
assert "swap" in kinds()
case = block.cases()["swap"]
digests = [digest(block.corrupted(case)) for _ in range(2)]
rows = block.block(Chain((case,)))
out = Chain.parse([{"kind": "swap", "rate": 1.0}]).apply(rows, seed=0, epoch=0, vocabulary=RICH)
json.dump({"digests": digests, "first": [rows.tokens.row(0).tolist(), out.tokens.row(0).tolist()]}, sys.stdout)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PROJECT, "utf-8")
    (source / "papermoth_swap.py").write_text(MODULE, "utf-8")
    flags = ("--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(site), str(source)]
    subprocess.run(command, check=True, timeout=240)
    return site


def run(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python, with the package on the path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )


def test_it_is_known_and_works(site):
    done = run(site, "-c", USE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["digests"][0] == found["digests"][1]
    before, after = found["first"]
    swapped = [before[i ^ 1] if (i ^ 1) < len(before) else before[i] for i in range(len(before))]
    assert after == swapped


def test_a_recipe_may_name_it_and_its_errors_are_one_line(site, tmp_path):
    recipe = tmp_path / "swap.yaml"
    text = "corpus: {source: a.txt}\ntokenizer: {train: {kind: unigram, vocab_size: 500}}\n"
    recipe.write_text(text + "corruption:\n  - {kind: swap, rate: 2}\nobjective: {kind: seq2seq}\n", "utf-8")
    main = "import sys; from pipelines.cli import main; main(sys.argv[1:])"
    done = run(site, "-c", main, "preview", str(recipe), "--text", "some words of text")
    assert done.returncode == 2
    assert done.stderr == (
        f"papermoth: {recipe}:4: corruption.0.rate: 2.0 is outside 0 to 1; give a share between 0 and 1\n"
    )


def test_without_it_the_kind_is_unknown(tmp_path):
    code = "from corruption.registry import parse_step; parse_step({'kind': 'swap'})"
    done = run(tmp_path, "-c", code)
    assert done.returncode == 1 and "unknown kind 'swap'" in done.stderr

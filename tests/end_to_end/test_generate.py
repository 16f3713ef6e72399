"""`papermoth generate`, whole: others load and train on what it makes, and no kill, signal or full disk spoils it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from corruption.errors import InputError
from pipelines.data_set import open_data_set, partial_of
from tests.end_to_end.conftest import Prepared
from tests.end_to_end.disks import disk, remount
from tests.end_to_end.tiny import command, environment, kill, papermoth, wait_for
from tests.pipelines.generated import contents

EPOCHS = 40


@dataclass(frozen=True)
class Made:
    """A working folder with a recipe and its store, a data set of EPOCHS epochs made without disturbance, and how long
    that took: seconds until the first shard was there, and from then to the end."""

    folder: Path
    recipe: Path
    whole: Path
    before: float
    making: float
    files: dict[str, bytes] = field(repr=False)

    def arguments(self, out: Path) -> tuple[str | Path, ...]:
        return ("generate", self.recipe, "--out", out, "--epochs", str(EPOCHS))


def shards_made(out: Path) -> int:
    """Shards whose record is written."""
    records = partial_of(out) / ".records"
    return len(list(records.glob("*.json"))) if records.is_dir() else 0


ORPHANS: list[psutil.Process] = []
"""Processes of Ray whose command has ended or was killed: they end by themselves, soon after."""


def assert_no_orphans() -> None:
    _, alive = psutil.wait_procs(ORPHANS, timeout=60)
    ORPHANS.clear()
    kill(alive)
    assert not alive, "processes outlived their command"


@contextmanager
def running(made: Made, out: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process group of its own; what it started goes to ORPHANS, dead or dying."""
    with open(out.with_name(f"{out.name}.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command(*made.arguments(out), *more),
            cwd=made.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
            text=True,
        )
    family: dict[int, psutil.Process] = {}
    over = threading.Event()

    def remember() -> None:
        while not over.wait(0.2):
            try:
                family.update({child.pid: child for child in psutil.Process(process.pid).children(recursive=True)})
            except psutil.Error:
                return

    watcher = threading.Thread(target=remember)
    watcher.start()
    try:
        yield process
    finally:
        over.set()
        watcher.join()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ORPHANS.extend(family.values())


@pytest.fixture(scope="module")
def made(prepared: Prepared) -> Made:
    folder, recipe, out = prepared.folder, prepared.recipe, prepared.folder / "whole"
    begun = time.monotonic()
    first = None
    with running(Made(folder, recipe, out, 0, 0, {}), out) as process:
        while process.poll() is None:
            if first is None and shards_made(out):
                first = time.monotonic()
            time.sleep(0.02)
    assert process.returncode == 0 and first is not None, (folder / "whole.log").read_text()
    return Made(folder, recipe, out, first - begun, time.monotonic() - first, contents(out))


# What others make of it


def test_load_dataset_reads_it_by_its_card(made: Made, tmp_path: Path) -> None:
    from datasets import load_dataset

    manifest = open_data_set(made.whole).manifest
    data = load_dataset(str(made.whole), cache_dir=str(tmp_path))
    assert {split: len(rows) for split, rows in data.items()} == manifest["rows"]
    files = {split: str(made.whole / "data" / f"{split}-*.parquet") for split in ("train", "validation")}
    again = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path))
    row = data["train"][7]
    assert row == again["train"][7] and list(row) == ["key", "epoch", "copy", "input_ids", "labels"]
    assert data["train"].features["key"].dtype == "uint64" and max(data["train"]["key"]) >= 2**63
    streamed = load_dataset(str(made.whole), split="validation", streaming=True)
    assert sum(1 for _ in streamed) == manifest["rows"]["validation"]


def model_of(whole: Path, folder: Path):
    """A tiny BERT and the tokenizer of the data set."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, set_seed

    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(whole / "tokenizer")
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
    )
    return BertForMaskedLM(config), tokenizer


def losses_of(model, collator, rows, folder: Path, steps: int = 30) -> list[float]:
    """The loss after every ten steps of a Trainer as its users set it up."""
    import torch
    from transformers import Trainer, TrainingArguments

    torch.set_num_threads(1)  # several only wait for each other in a model this small
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collator)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.timeout(600)
def test_a_trainer_of_transformers_learns_masked_tokens_from_it(made: Made, tmp_path: Path) -> None:
    from datasets import load_dataset
    from transformers import DataCollatorForTokenClassification

    rows = load_dataset(str(made.whole), split="train", cache_dir=str(tmp_path / "cache"))
    model, tokenizer = model_of(made.whole, tmp_path)
    losses = losses_of(model, DataCollatorForTokenClassification(tokenizer), rows, tmp_path / "run")
    assert losses[-1] < losses[0] - 0.5, losses


def test_texts_load_and_epochs_and_copies_differ(made: Made, tmp_path: Path) -> None:
    from datasets import load_dataset
    from transformers import AutoTokenizer

    out = tmp_path / "texts"
    arguments = ("generate", made.recipe, "--out", out, "--format", "jsonl", "--epochs", "2", "--copies", "2")
    done = papermoth(*arguments, cwd=made.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    data = load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert data["train"].column_names == ["key", "epoch", "copy", "corrupted", "original"]
    found: dict[int, dict[tuple[int, int], dict[str, str]]] = {}
    for row in data["train"]:
        found.setdefault(int(row["key"]), {})[row["epoch"], row["copy"]] = row
    assert all(list(own) == [(0, 0), (0, 1), (1, 0), (1, 1)] for own in found.values())
    assert all(len({row["original"] for row in own.values()}) == 1 for own in found.values())
    long = [[row["corrupted"] for row in own.values()] for own in found.values() if len(own[0, 0]["original"]) > 100]
    same = sum(a == b for texts in long for i, a in enumerate(texts) for b in texts[:i])
    assert len(long) > 1000 and same <= len(long) // 100
    held_out = {int(key) for key in data["validation"]["key"]}
    assert held_out and not held_out & set(found)

    ids = open_data_set(made.whole)
    rows = {row["key"]: row for row in ids.read(ids.shards("train")[0]).to_pylist()}
    assert set(rows) == set(found)
    tokenizer = AutoTokenizer.from_pretrained(out / "tokenizer")
    whole = 0
    for key, row in rows.items():
        original = [token if label == -100 else label for token, label in zip(row["input_ids"], row["labels"])]
        whole += tokenizer(found[key][0, 0]["original"])["input_ids"] == original
    assert whole > 0.95 * len(rows)


# What is there already


def test_the_same_command_again_says_so_and_others_are_refused(made: Made) -> None:
    again = papermoth(*made.arguments(made.whole), "--workers", "1", cwd=made.folder)
    assert again.returncode == 0 and "the data set whole is there already" in again.stdout, again.stdout + again.stderr
    other = papermoth(*made.arguments(made.whole), "--copies", "2", cwd=made.folder)
    assert other.returncode == 2
    assert other.stderr == (
        "papermoth: --out whole: it holds another finished data set (copies 1, not 2); use another --out, or replace "
        "it with --overwrite\n"
    )
    foreign = papermoth("generate", made.recipe, "--out", "corpus", "--overwrite", cwd=made.folder)
    assert foreign.returncode == 2 and len(foreign.stderr.splitlines()) == 1
    assert "the folder holds no data set of ours" in foreign.stderr
    assert contents(made.whole) == made.files


@pytest.mark.soak
def test_any_number_of_workers_writes_the_same_bytes_and_progress_is_told(made: Made) -> None:
    out = made.folder / "one-worker"
    done = papermoth(*made.arguments(out), "--workers", "1", "--log", "json", cwd=made.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(out) == made.files
    events = [json.loads(line) for line in done.stdout.splitlines()]
    progress = [event for event in events if event["event"] == "progress" and event["job"] == "generate"]
    assert progress[-1]["done"] == progress[-1]["total"] == EPOCHS + 1
    assert progress[-1]["tokens_per_second"] > 0
    assert all("seconds_left" in event for event in progress)
    shutil.rmtree(out)


# Kills


def moments(count: int) -> list[float]:
    """Shares of the way, spread over all of it; below zero: of the time before the first shard."""
    early = [-0.4, -0.9][: count // 5]
    late = count - len(early)
    return [*early, *((i + 0.5) / late for i in range(late))]


def killed(made: Made, out: Path, moment: float) -> int:
    """Start the command, kill its process group at that moment; returns how many shards were finished, -1 at its end.

    The way is counted in shards, so that a busy machine does not shift it, and the kill comes at another point of a
    shard's time at each share. Until then nothing may have taken the folder for finished.
    """
    total = EPOCHS + 1
    with running(made, out) as process:
        if moment < 0:
            time.sleep(made.before * -moment)
        else:
            until = time.monotonic() + 300
            while shards_made(out) < moment * total and not out.exists():
                assert process.poll() is None, out.with_name(f"{out.name}.log").read_text()
                assert time.monotonic() < until, "waited too long"
                assert_never_partial(made, out)
                time.sleep(0.02)
            time.sleep(made.making / total * (moment * total % 1.0))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done = shards_made(out)
        return -1 if out.exists() else done


def assert_never_partial(made: Made, out: Path) -> None:
    """The folder is not there, or everything is in it."""
    try:
        data = open_data_set(out)
    except InputError:
        assert not out.exists() or (out / "manifest.json").exists()
        return
    data.check_files()
    assert data.manifest == json.loads(made.files["manifest.json"])


def assert_nothing_takes_it_for_finished(made: Made, out: Path, folder: Path) -> None:
    from datasets import load_dataset

    with pytest.raises(InputError, match=r"is not (finished|there)"):
        open_data_set(out)
    verified = papermoth("verify", out, cwd=made.folder)
    assert verified.returncode == 2 and "is not" in verified.stderr, verified.stdout + verified.stderr
    for place in (out, partial_of(out)):
        with pytest.raises(Exception, match=r"(?i)couldn't (find|reach)|contain any data files"):
            load_dataset(str(place), cache_dir=str(folder / "cache"))


def kill_and_run_again(made: Made, out: Path, moment: float, folder: Path) -> int:
    done = killed(made, out, moment)
    if done >= 0:
        assert_nothing_takes_it_for_finished(made, out, folder)
    assert_run_again_ends_in_the_same_bytes(made, out, done)
    shutil.rmtree(out)
    return done


def assert_run_again_ends_in_the_same_bytes(made: Made, out: Path, done: int) -> None:
    """And makes no shard anew of the `done` that were finished at least."""
    again = papermoth(*made.arguments(out), cwd=made.folder)
    assert again.returncode == 0, again.stdout + again.stderr
    if done > 0:
        found = int(again.stdout.split(" of them made before")[0].rsplit(" ", 1)[1].replace(",", ""))
        # A worker may have finished its shard after the command was killed.
        assert found >= done, "shards that were finished are not made again"
    assert contents(out) == made.files
    verified = papermoth("verify", out, cwd=made.folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert_no_orphans()
    left = [path.name for path in out.parent.iterdir() if path.name.startswith(f".{out.name}")]
    assert left in ([], [f".{out.name}.lock"])


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_killed_ten_times_spread_over_its_time(made: Made, tmp_path: Path) -> None:
    reached = [kill_and_run_again(made, made.folder / "killed", moment, tmp_path) for moment in moments(10)]
    print("shards finished at each kill:", reached)
    assert sum(0 < done < EPOCHS + 1 for done in reached) >= 6, reached


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_killed_worker_is_retried_and_the_bytes_are_the_same(made: Made) -> None:
    out = made.folder / "worker"
    victims: list[int] = []
    with running(made, out) as process:
        wait_for(lambda: shards_made(out) > 3, process)
        while len(victims) < 2 and process.poll() is None:
            for worker in workers_of(process):
                if worker.pid not in victims:
                    worker.kill()
                    victims.append(worker.pid)
            time.sleep(0.01)
        assert shards_made(out) <= EPOCHS
        process.wait(timeout=200)
    assert process.returncode == 0, (made.folder / "worker.log").read_text()
    assert victims, "no worker was there to be killed: the test shows nothing"
    assert contents(out) == made.files
    shutil.rmtree(out)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The command's Ray workers that are making a shard now; an idle one has another title."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if any("_make_shards" in part for part in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


# Disks


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_full_disk_is_one_line_and_the_finished_shards_stay(made: Made, tmp_path: Path) -> None:
    size = sum(map(len, made.files.values())) / 2**20
    place = tmp_path / "disk"
    out = place / "out"
    with disk(place, size / 3) as mounted:
        if not mounted:
            pytest.skip("no file system can be mounted here")
        full = papermoth(*made.arguments(out), cwd=made.folder)
        assert full.returncode == 1, full.stdout + full.stderr
        assert len(full.stderr.splitlines()) == 1, full.stderr
        assert full.stderr.startswith(f"papermoth: --out {out}: the disk is full (No space left on device); ")
        assert full.stderr.endswith("free some space and run the same command again, which goes on from there\n")
        assert not out.exists() and 3 < shards_made(out) < EPOCHS
        remount(place, f"size={int(3 * size * 1024)}k")
        again = papermoth(*made.arguments(out), cwd=made.folder)
        assert again.returncode == 0, again.stdout + again.stderr
        assert "of them made before" in again.stdout
        assert contents(out) == made.files


@pytest.mark.timeout(600)
def test_killed_then_terminated_then_on_a_read_only_disk_it_ends_in_the_same_bytes(made: Made, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    out = place / "out"
    with disk(place, 100) as mounted:
        done = killed(made, out, 0.2)
        assert 0 < done < EPOCHS + 1
        assert_nothing_takes_it_for_finished(made, out, tmp_path)
        with running(made, out) as process:
            wait_for(lambda: shards_made(out) > done + 2, process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 143
        assert "Traceback" not in (place / "out.log").read_text()
        assert not out.exists() and shards_made(out) > done + 2
        if mounted:
            remount(place, "ro")
            refused = papermoth(*made.arguments(out), cwd=made.folder)
            assert refused.returncode == 2, refused.stdout + refused.stderr
            assert len(refused.stderr.splitlines()) == 1, refused.stderr
            assert f"--out {out}: it cannot be written to (Read-only file system)" in refused.stderr
            remount(place, "rw")
        assert_run_again_ends_in_the_same_bytes(made, out, done + 2)

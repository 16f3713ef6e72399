"""What the console prints, when, and that nothing on the reader's side can break a job."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from pipelines.console import Console
from pipelines.progress import Job, Rate
from pipelines.readable import amount, duration, number, share, short


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def make(mode: str = "text", **options: object) -> tuple[Console, io.StringIO, io.StringIO, Clock]:
    out, err, clock = io.StringIO(), io.StringIO(), Clock()
    return Console(mode, out, err, clock=clock, **options), out, err, clock  # type: ignore[arg-type]


def events(stream: io.StringIO) -> list[dict[str, object]]:
    def strict(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return [json.loads(line, parse_constant=strict) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (amount(12_345_678, "tok"), "12.3 Mtok"),
        (amount(3_200, "tok/s"), "3.2 ktok/s"),
        (amount(999_499, "tok"), "999 ktok"),
        (amount(999_960, "tok"), "1 Mtok"),
        (amount(12), "12"),
        (amount(0.25, "tok/s"), "0.25 tok/s"),
        (amount(float("nan"), "tok"), "nan tok"),
        (duration(0), "0s"),
        (duration(0.42), "0.4s"),
        (duration(9.96), "10s"),
        (duration(59.7), "1m00s"),
        (duration(72), "1m12s"),
        (duration(3600 * 3 + 290), "3h04m"),
        (duration(2 * 86400 + 4 * 3600), "2d04h"),
        (duration(float("inf")), "?"),
        (number(6.3123), "6.31"),
        (number(0.01234), "0.0123"),
        (number(1234.5), "1.2 k"),
        (number(123456), "123 456"),
        (number("x"), "x"),
        (number(float("inf")), "inf"),
        (share(0.021), "2%"),
        (share(0.004), "0.4%"),
        (share(1.0), "100%"),
        (short(600), "600"),
        (short(1_500_000), "1.5M"),
    ],
)
def test_numbers_are_written_for_people(got: str, wanted: str) -> None:
    assert got == wanted


def test_progress_line_has_everything_in_its_place() -> None:
    console, out, _, clock = make()
    console.progress("pretrain", 0, 600, tokens=0)
    clock.now += 30
    console.progress("pretrain", 120, 600, tokens=96_000, loss=6.3123, wait=0.02)
    assert out.getvalue().splitlines() == [
        "pretrain  0/600  0%",
        "pretrain  120/600  20%  loss 6.31  3.2 ktok/s  wait 2%  2m00s left",
    ]


def test_progress_is_rate_limited_but_shows_the_end() -> None:
    console, out, _, clock = make()
    for step in range(1, 101):
        clock.now += 0.1
        console.progress("pretrain", step, 100)
    lines = out.getvalue().splitlines()
    assert len(lines) == 5  # one at once, one every three of the ten seconds, the last
    assert lines[-1].startswith("pretrain  100/100  100%")


def test_two_jobs_do_not_silence_each_other() -> None:
    console, out, _, _ = make()
    console.progress("read", 1, None, unit="documents")
    console.progress("write", 1, None, unit="shards")
    assert out.getvalue() == "read  1 documents\nwrite  1 shards\n"


def test_units_give_rates_where_tokens_are_not_known() -> None:
    console, out, _, clock = make()
    console.progress("prepare", 1000, None, unit="documents")
    clock.now += 10
    console.progress("prepare", 21_000, None, unit="documents", quarantined=3)
    assert out.getvalue().splitlines()[-1] == "prepare  21 000 documents  2 k documents/s  quarantined 3"


def test_resumed_job_is_not_infinitely_fast() -> None:
    job = Job("pretrain", 0.0)
    job.update(0.0, 5000, 6000, {"tokens": 5_000_000})
    assert job.seconds_left() is None
    job.update(10.0, 5010, 6000, {"tokens": 5_010_000})
    assert job.seconds_left() == pytest.approx(990)
    assert job.event()["tokens_per_second"] == pytest.approx(1000)


def test_restart_from_a_checkpoint_keeps_the_rate_positive() -> None:
    rate = Rate()
    for now, count in ((0, 0), (10, 100), (12, 40), (22, 140)):
        rate.update(now, count)
    assert rate.value == pytest.approx(10)


def test_rate_follows_a_change_within_a_minute_and_ignores_no_news() -> None:
    rate = Rate()
    for second in range(61):
        rate.update(second, 100 * second)
        rate.update(second + 0.5, 100 * second)
    assert rate.value == pytest.approx(100)
    for second in range(61, 161):
        rate.update(second, 6000 + 10 * (second - 60))
    assert rate.value == pytest.approx(10, rel=0.1)


def test_stalled_job_does_not_promise_an_end() -> None:
    job = Job("pretrain", 0.0)
    job.update(0, 0, 100, {})
    job.update(10, 50, 100, {})
    for minute in range(1, 20):
        job.update(10 + 60 * minute, 50, 100, {})
    left = job.seconds_left()
    assert left is None or left > 1000


def test_json_events_are_complete_and_strict() -> None:
    console, out, err, clock = make("json")
    console.say("reading\nfiles")
    console.progress("pretrain", 0, 10, tokens=0)
    clock.now += 5
    console.progress("pretrain", 5, 10, tokens=np.int64(5000), loss=np.float32(2.5), grad_norm=float("nan"))
    console.done("pretrain", perplexity=181.5)
    console.warn("disk nearly full")
    said, first, second, done = events(out)
    assert said["event"] == "message" and said["text"] == "reading\nfiles"
    assert first["event"] == "progress" and first["done"] == 0 and first["seconds_left"] is None
    assert second | {"time": 0} == {
        "event": "progress",
        "time": 0,
        "job": "pretrain",
        "done": 5,
        "total": 10,
        "seconds": 5.0,
        "tokens": 5000,
        "loss": 2.5,
        "grad_norm": "nan",
        "tokens_per_second": 1000.0,
        "rate": 1.0,
        "seconds_left": 5.0,
    }
    assert (
        done["event"] == "done"
        and done["seconds"] == 5.0
        and done["perplexity"] == 181.5
        and done["loss"] == 2.5
    )
    assert [(event["event"], event["text"]) for event in events(err)] == [("warning", "disk nearly full")]


def test_warnings_go_to_stderr_once() -> None:
    console, out, err, _ = make()
    console.warn("a")
    console.warn("b")
    console.warn("a")
    assert err.getvalue() == "warning: a\nwarning: b\n"
    assert out.getvalue() == ""


def test_outcome_line() -> None:
    console, out, _, clock = make()
    console.progress("pretrain", 600, 600, tokens=4_900_000)
    clock.now += 123
    console.done("pretrain", perplexity=181.34)
    assert out.getvalue().splitlines()[-1] == "pretrain  done in 2m03s  4.9 Mtok  perplexity 181"


def test_done_without_progress_is_fine() -> None:
    console, out, _, _ = make()
    console.done("tokenizer", words=8000)
    assert out.getvalue() == "tokenizer  done in 0s  words 8000\n"


def test_unwritable_letters_are_escaped() -> None:
    raw = io.BytesIO()
    console = Console("text", io.TextIOWrapper(raw, encoding="ascii"), io.StringIO())
    console.say("loss 損 ● 5")
    assert raw.getvalue() == b"loss \\u640d \\u25cf 5\n"


def test_a_reader_that_goes_away_does_not_stop_the_job() -> None:
    code = (
        "from pipelines.console import Console\n"
        "console = Console()\n"
        "for i in range(20000): console.say('line ' + 'x' * 80)\n"
        "console.warn('still here')\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert job.stdout is not None and job.stderr is not None
    job.stdout.readline()
    job.stdout.close()
    assert job.stderr.read() == "warning: still here\n"
    assert job.wait() == 0


def test_terminal_gets_one_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    ours, theirs = pty.openpty()
    clock = Clock()
    with os.fdopen(theirs, "w") as terminal:
        console = Console("text", terminal, io.StringIO(), clock=clock)
        for step in (1, 2, 3):
            clock.now += 1
            console.progress("pretrain", step, 100, loss=6.3, note="much too long for thirty columns")
        console.say("a message")
        console.close()
        console.done("pretrain")
        shown = ""
        while "done" not in shown:  # a pseudo-terminal hands over its output in pieces
            shown += os.read(ours, 10_000).decode()
    os.close(ours)
    pieces = shown.replace("\r\n", "\n").split("\r\x1b[2K")
    assert all(len(piece.rstrip("\n")) < 30 for piece in pieces if piece.startswith("pretrain  1"))
    assert [piece for piece in pieces if "message" in piece] == ["a message\n"]
    assert pieces[1].startswith("pretrain  1/100  1%  loss 6.3")
    assert any(piece.endswith("\n") and piece.startswith("pretrain  3/100") for piece in pieces)
    assert pieces[-1].endswith("pretrain  done in 2s\n")


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="neither 'text' nor 'json'"):
        Console("xml")  # type: ignore[arg-type]


def test_console_imports_nothing_heavy() -> None:
    code = (
        "import sys, pipelines.console, pipelines.curves\n"
        "heavy = {'ray', 'torch', 'mlflow', 'transformers', 'numpy', 'rich'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""

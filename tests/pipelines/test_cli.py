from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from corruption.errors import InputError
from pipelines import cli
from pipelines.outcome import JobFailed

JOBS = {
    "demo": ("pipelines.demo", "demo"),
    "tokenizer": ("pipelines.tokenizer_job", "train"),
    "prepare": ("pipelines.prepare", "prepare"),
    "preview": ("pipelines.preview", "preview"),
    "pretrain": ("pipelines.pretrain", "pretrain"),
    "evaluate": ("pipelines.evaluate", "evaluate"),
    "export": ("pipelines.export", "export"),
    "doctor": ("pipelines.doctor", "doctor"),
}


@pytest.fixture
def jobs(monkeypatch):
    """Every job replaced by one that notes how it was called, or raises what `behave` holds."""
    calls = {}
    behave = {}

    def stand_in(command):
        def job(*args, **kwargs):
            calls[command] = (args, kwargs)
            if command in behave:
                raise behave[command]

        return job

    for command, (module, function) in JOBS.items():
        fake = types.ModuleType(module)
        setattr(fake, function, stand_in(command))
        monkeypatch.setitem(sys.modules, module, fake)
    calls["behave"] = behave
    return calls


@pytest.fixture
def run(monkeypatch, capfd):
    """Run the command line in this process; returns (exit code, stdout, stderr)."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(list(arguments))
        out, err = capfd.readouterr()
        return end.value.code, out, err

    return run


def command(*arguments, **how):
    return subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])},
        **how,
    )


def test_options_reach_the_jobs(run, jobs, tmp_path):
    assert (
        run(
            "pretrain",
            "demo",
            "--set",
            "train.steps=7",
            "--set",
            "seed=3",
            "--out",
            "~/o",
            "--dry-run",
            "--strict",
        )[0]
        == 0
    )
    (recipe,), options = jobs["pretrain"]
    assert recipe.train.steps == 7 and recipe.seed == 3
    console = options.pop("console")
    assert console.mode == "text"
    assert options == {
        "out": Path.home() / "o",
        "fresh": False,
        "dry_run": True,
        "strict": True,
        "address": None,
    }
    assert run("prepare", "wwm", "--fresh", "--address", "auto", "--log", "json")[0] == 0
    (recipe,), options = jobs["prepare"]
    assert recipe.name == "wwm" and options.pop("console").mode == "json"
    assert options == {"out": None, "fresh": True, "strict": False, "workers": None, "address": "auto"}
    assert run("preview", "demo", "--rows", "2", "--text", "a b", "--epoch", "3", "--width", "90")[0] == 0
    untold = {"text": None, "epoch": None, "step": None, "lane": None, "html": None, "width": None}
    assert jobs["preview"][1] == {**untold, "rows": 2, "text": "a b", "epoch": 3, "width": 90}
    assert run("preview", "demo", "--step", "7", "--lane", "1", "--html", "~/p.html")[0] == 0
    assert jobs["preview"][1] == {**untold, "rows": 5, "step": 7, "lane": 1, "html": Path.home() / "p.html"}
    assert run("evaluate", str(tmp_path))[0] == 0 and jobs["evaluate"][0] == (tmp_path,)
    assert run("export", str(tmp_path), "--out", "m")[0] == 0 and jobs["export"][0] == (tmp_path, Path("m"))
    assert run("tokenizer", "demo")[0] == 0 and run("demo", "--fresh")[0] == 0
    assert jobs["demo"][1]["fresh"] is True
    assert run("doctor")[0] == 0 and jobs["doctor"][0] == (None,)


def test_wrong_input_is_one_line_and_code_2(run, jobs):
    jobs["behave"]["prepare"] = InputError("data/*.txt", "no file matches", "correct the pattern")
    assert run("prepare", "demo") == (2, "", "papermoth: data/*.txt: no file matches; correct the pattern\n")
    code, out, err = run("prepare", "demo", "--set", "train.stepz=1")
    assert (code, out) == (2, "")
    assert err == "papermoth: --set train.stepz=1: train.stepz is no key of a recipe; did you mean 'steps'?\n"


def test_A_05_a_share_out_of_range_ends_with_code_2_before_any_work(run, jobs):
    code, _, err = run("pretrain", "demo", "--set", "corruption.mask.mask_share=1.2")
    assert code == 2 and "mask_share: 1.2 is outside 0 to 1" in err and err.count("\n") == 1
    assert "pretrain" not in jobs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrian", "demo"], "pretrian"),
        (["pretrain"], "RECIPE"),
        (["pretrain", "demo", "--frsh"], "--frsh"),
        (["preview", "demo", "--rows", "0"], "--rows"),
        (["prepare", "demo", "--log", "xml"], "xml"),
        (["evaluate", "no/such/run"], "there is no such folder"),
        (["recipes", "dmo"], "did you mean 'demo'?"),
        (["export", "."], "--out"),
    ],
)
def test_usage_errors_are_code_2_without_a_traceback(run, jobs, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and message in err and "Traceback" not in err
    assert err.startswith("papermoth: ") and err.count("\n") == 1


def test_a_failed_job_has_its_own_code_and_one_line(run, jobs):
    jobs["behave"]["pretrain"] = JobFailed("the loss is NaN\nat step 7; lower train.learning_rate")
    assert run("pretrain", "demo") == (
        1,
        "",
        "papermoth: the loss is NaN at step 7; lower train.learning_rate\n",
    )
    jobs["behave"]["pretrain"] = JobFailed("x", exit_code=3)
    assert run("pretrain", "demo")[0] == 3


def test_interrupts(run, jobs):
    jobs["behave"]["pretrain"] = KeyboardInterrupt()
    assert run("pretrain", "demo")[0] == 130
    jobs["behave"]["pretrain"] = SystemExit(143)
    assert run("pretrain", "demo")[0] == 143


def test_a_bug_keeps_its_traceback(run, jobs):
    jobs["behave"]["pretrain"] = ZeroDivisionError("a bug")
    code, _, err = run("pretrain", "demo")
    assert code == 1 and "Traceback" in err and err.endswith("ZeroDivisionError: a bug\n")


def test_a_bug_in_a_trainer_shows_that_trainers_traceback_alone(run, jobs):
    bug = ZeroDivisionError("a bug")
    bug.papermoth_failed = (1.0, "Traceback (most recent call last):\n  in a trainer\nZeroDivisionError: a bug\n")
    jobs["behave"]["pretrain"] = RuntimeError("Training failed due to worker errors")
    jobs["behave"]["pretrain"].worker_failures = {1: bug}
    code, _, err = run("pretrain", "demo")
    assert code == 1 and err == f"trainer 1 failed first:\n{bug.papermoth_failed[1]}"


def test_recipes_lists_and_prints(run):
    code, out, _ = run("recipes")
    files = sorted(path.stem for path in (Path(cli.__file__).parent / "recipes").glob("*.yaml"))
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == files
    assert {"bart", "bert-mlm", "demo", "t5"} <= set(files)
    code, out, _ = run("recipes", "roberta")
    assert code == 0 and out == (Path(cli.__file__).parent / "recipes" / "roberta.yaml").read_text("utf-8")


def test_help_is_quick_and_loads_nothing_heavy():
    script = (
        "import sys; from pipelines.cli import main\n"
        "heavy = {'ray', 'torch', 'mlflow', 'transformers', 'datasets', 'pandas', 'numba', 'pyarrow'}\n"
        "try: main(['--help'])\n"
        "finally: print(sorted(heavy & set(sys.modules)))"
    )
    seconds = []
    for _ in range(3):
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        seconds.append(time.monotonic() - start)
        assert done.returncode == 0 and done.stdout.endswith("[]\n") and "pretrain" in done.stdout
    assert min(seconds) < 1.0


def test_no_arguments_print_the_help(run):
    code, out, _ = run()
    assert code == 0 and "Usage: papermoth" in out


def test_a_reader_that_leaves_is_no_bug():
    line = "from pipelines.cli import main; main(['recipes', 'demo'])"
    shell = f'set -o pipefail; {sys.executable} -c "{line}" | true'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert done.returncode in (0, 1, 141)  # 0 when the text had gone before the reader left


def test_sigterm_ends_with_143():
    script = (
        "import os, signal, sys, types\nfrom pipelines import cli\nm = types.ModuleType('pipelines.demo')\n"
    )
    script += "m.demo = lambda **_: (os.kill(os.getpid(), signal.SIGTERM), __import__('time').sleep(5))\n"
    script += "sys.modules['pipelines.demo'] = m\ncli.main(['demo'])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).returncode == 143


def test_telemetry_is_off_and_a_value_that_was_set_stays(monkeypatch):
    from pipelines.quiet import local_ray, quiet

    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "0")
    quiet()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0" and os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert os.environ["DO_NOT_TRACK"] == "1" and os.environ["HF_HUB_DISABLE_TELEMETRY"] == "0"
    assert "RAY_AUTH_MODE" not in os.environ
    local_ray()
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    local_ray()
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_H_09_a_recipe_called_like_an_option(tmp_path):
    (tmp_path / "-x.yaml").write_text("seed: -1\n", "utf-8")
    before = sorted(tmp_path.iterdir())
    done = command("preview", "--", "-x.yaml", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("papermoth: -x.yaml:1: seed = -1;")
    assert sorted(tmp_path.iterdir()) == before

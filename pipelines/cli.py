"""The command line: reads options, calls one job, and turns how it ended into an exit code.

Nothing heavy is imported before a job needs it, so `papermoth --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from pipelines.outcome import JobFailed
from pipelines.quiet import quiet

if TYPE_CHECKING:
    from pipelines.console import Console
    from pipelines.recipe import Recipe

DONE, FAILED, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143

app = typer.Typer(
    name="papermoth",
    help="Pretrain language models on corrupted text: exact noise on Ray, runs compared in MLflow.",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of a shipped recipe.")
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key: --set train.steps=1000."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FOLDER", help="Where to write, instead of the default place.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start anew instead of continuing what is there.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="End with exit code 1 if any row or file was unusable.")
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="RAY", help="Address of a Ray cluster; without it Ray starts here."),
]
Log = Annotated[
    Literal["text", "json"], typer.Option("--log", help="Progress for people, or one JSON object a line.")
]


@app.command()
def demo(out: Out = None, fresh: Fresh = False, log: Log = "text") -> None:
    """Run the whole line on a real corpus, offline."""
    from pipelines.demo import demo as job

    job(out=_folder(out), fresh=fresh, console=_console(log))


@app.command()
def tokenizer(recipe: RecipeName, set_: Sets = None, out: Out = None, log: Log = "text") -> None:
    """Train the recipe's tokenizer on its corpus."""
    from pipelines.tokenizer_job import train as job

    job(_recipe(recipe, set_), out=_folder(out), console=_console(log))


@app.command()
def prepare(
    recipe: RecipeName,
    set_: Sets = None,
    out: Out = None,
    fresh: Fresh = False,
    strict: Strict = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cores to keep busy; all here if not given.")
    ] = None,
    address: Address = None,
    log: Log = "text",
) -> None:
    """Turn the recipe's corpus into a store of tokenised passages."""
    from pipelines.prepare import prepare as job

    job(
        _recipe(recipe, set_),
        out=_folder(out),
        workers=workers,
        fresh=fresh,
        strict=strict,
        address=address,
        console=_console(log),
    )


@app.command()
def preview(
    recipe: RecipeName,
    set_: Sets = None,
    rows: Annotated[
        int, typer.Option(min=1, max=1000, help="How many passages to show; with --step, of each microbatch.")
    ] = 5,
    text: Annotated[str | None, typer.Option(help="Corrupt this text instead of the corpus.")] = None,
    epoch: Annotated[
        int | None, typer.Option(min=0, help="Show the noise of this epoch; 0 if not given.")
    ] = None,
    step: Annotated[
        int | None, typer.Option(min=0, help="Show what the run is fed in this step, counted from 0.")
    ] = None,
    lane: Annotated[
        int | None, typer.Option(min=0, help="With --step: only this lane's microbatch.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one web page instead of printing.")
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=40, help="Columns to print; the terminal's own if not given.")
    ] = None,
) -> None:
    """Show real text before and after corruption."""
    from pipelines.preview import preview as job

    page = _folder(html)
    job(
        _recipe(recipe, set_), rows=rows, text=text, epoch=epoch, step=step, lane=lane, html=page, width=width
    )


@app.command()
def generate(
    recipe: RecipeName,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The new folder of the data set.")],
    set_: Sets = None,
    copies: Annotated[
        int, typer.Option(min=1, help="How often each passage comes in an epoch, under noise of its own.")
    ] = 1,
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs of noise to write.")] = 1,
    format_: Annotated[
        Literal["parquet", "jsonl"], typer.Option("--format", help="Token ids in Parquet, or texts in JSONL.")
    ] = "parquet",
    generator: Annotated[
        str | None,
        typer.Option("--generator", metavar="MODEL", help="Masked LM whose samples replace the labelled tokens."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Of the generator's samples: 1 if not given, 0 takes the likeliest.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another data set there, once this one is complete.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cores to keep busy; all here if not given.")
    ] = None,
    address: Address = None,
    log: Log = "text",
) -> None:
    """Write corrupted examples as a data set that `load_dataset` reads."""
    from pipelines.generate import generate as job

    job(
        _recipe(recipe, set_),
        out=out,
        copies=copies,
        epochs=epochs,
        files=format_,
        generator=generator,
        temperature=temperature,
        overwrite=overwrite,
        workers=workers,
        address=address,
        console=_console(log),
    )


@app.command()
def verify(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A data set of generate, or any of Parquet or `datasets`.")
    ],
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FOLDER", help="The store it was made of, to derive rows again.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=0, help="How many rows to derive again: 10,000 if not given, 0 for all.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="RECIPE", help="How a data set that is not ours was made.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Of one not ours: share of the tokens that has labels.")] = None,
    count: Annotated[
        Literal["exact", "bernoulli", "stochastic"] | None, typer.Option(help="How the rate was kept in each row.")
    ] = None,
    unit: Annotated[
        Literal["token", "word"] | None, typer.Option(help="What was masked: tokens, or words whole.")
    ] = None,
    mask_share: Annotated[float | None, typer.Option(help="Share of the labelled tokens that is hidden.")] = None,
    random_share: Annotated[float | None, typer.Option(help="Share of them that is another token.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", metavar="FOLDER", help="The tokenizer of one that is not ours.")
    ] = None,
    log: Log = "text",
) -> None:
    """Check a corrupted data set against the laws of its noise."""
    from pipelines.verify import Claims
    from pipelines.verify import verify as job

    said = None if recipe is None else _recipe(recipe, None)
    claims = Claims(said, rate, count, unit, mask_share, random_share, _folder(tokenizer))
    job(data.expanduser(), store=_folder(store), claims=claims, rows=rows, console=_console(log))


@app.command()
def pretrain(
    recipe: RecipeName,
    set_: Sets = None,
    out: Out = None,
    fresh: Fresh = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and stop.")] = False,
    strict: Strict = False,
    address: Address = None,
    log: Log = "text",
) -> None:
    """Train the recipe's model, or go on where it was."""
    from pipelines.pretrain import pretrain as job

    job(
        _recipe(recipe, set_),
        out=_folder(out),
        fresh=fresh,
        dry_run=dry_run,
        strict=strict,
        address=address,
        console=_console(log),
    )


@app.command()
def evaluate(run: Run, log: Log = "text") -> None:
    """Score a run on its held-out documents."""
    from pipelines.evaluate import evaluate as job

    job(_run(run), console=_console(log))


@app.command()
def export(
    run: Run,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The new folder of the model.")],
    log: Log = "text",
) -> None:
    """Write a run's model as a folder that `from_pretrained` loads."""
    from pipelines.export import export as job

    job(_run(run), out.expanduser(), console=_console(log))


@app.command()
def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this recipe's YAML, to start your own from.")
    ] = None,
) -> None:
    """List the shipped recipes, or print one."""
    from pipelines.shipped import describe, shipped_recipes, shipped_text

    if name is not None:
        typer.echo(shipped_text(name), nl=False)
        return
    for shipped in shipped_recipes():
        typer.echo(f"{shipped:<12} {describe(shipped)}")


@app.command()
def doctor(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Also check what this recipe needs.")
    ] = None,
    set_: Sets = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="RAY", help="Also check this Ray cluster, node by node.")
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option("--cluster", metavar="FILE", help="Also check a file for ray up, without a cloud.")
    ] = None,
) -> None:
    """Check this machine, a cluster, and what a recipe needs of them."""
    from pipelines.doctor import doctor as job

    job(None if recipe is None else _recipe(recipe, set_), address=address, cluster=_folder(cluster))


def _recipe(name: str, settings: list[str] | None) -> Recipe:
    from pipelines.recipe import load_recipe

    return load_recipe(name, settings or ())


def _console(mode: Literal["text", "json"]) -> Console:
    from pipelines.console import Console

    return Console(mode)


def _folder(out: Path | None) -> Path | None:
    return None if out is None else out.expanduser()


def _run(run: Path) -> Path:
    from corruption.errors import InputError

    run = run.expanduser()
    if not run.is_dir():
        raise InputError(
            f"run {run}", "there is no such folder", "give the folder that pretrain printed, runs/<name>"
        )
    return run


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: 0 done, 1 failed (a bug: traceback), 2 wrong input, 130 or 143 signalled."""
    quiet()
    signal.signal(signal.SIGTERM, _terminated)
    try:
        sys.exit(_outcome(list(sys.argv[1:] if arguments is None else arguments)))
    finally:
        # The interpreter's last search for garbage, through all that torch and MLflow made, takes a second or two.
        gc.freeze()


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)


def _outcome(arguments: list[str]) -> int:
    try:
        code = app(arguments or ["--help"], prog_name="papermoth", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone. Python would complain again when it flushes at exit, so stdout goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except SystemExit:
        # typer ends with 1 when the reader has gone, and then wraps stdout so that flushing it is silent.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            return BROKEN_PIPE
        raise
    except JobFailed as failure:
        _say(str(failure))
        return failure.exit_code
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(
            error, "exit_code"
        ):  # a usage error of typer, in any version
            _say(error.format_message().rstrip(".") + "; see papermoth --help")
            return WRONG_INPUT
        if _is_input_error(error):
            _say(str(error))
            return WRONG_INPUT
        import traceback

        from pipelines.trainer_error import first_traceback

        print((first_traceback(error) or traceback.format_exc()).rstrip(), file=sys.stderr)
        return FAILED


def _is_input_error(error: Exception) -> bool:
    """Without importing the class where nothing that could raise it was imported."""
    module = sys.modules.get("corruption.errors")
    return module is not None and isinstance(error, module.InputError)


def _say(message: str) -> None:
    print(f"papermoth: {message}", file=sys.stderr)

"""The command line is frozen: a command or an option is added here on purpose, or not at all."""

from __future__ import annotations

import inspect

import pytest
import typer

from pipelines.cli import app

SURFACE = {
    "demo": {"--out", "--fresh", "--log"},
    "tokenizer": {"RECIPE", "--set", "--out", "--log"},
    "prepare": {"RECIPE", "--set", "--out", "--fresh", "--strict", "--workers", "--address", "--log"},
    "preview": {"RECIPE", "--set", "--rows", "--text", "--epoch", "--step", "--lane", "--html", "--width"},
    "generate": {
        *("RECIPE", "--set", "--out", "--copies", "--epochs", "--format", "--overwrite", "--workers", "--address"),
        *("--generator", "--temperature", "--log"),
    },
    "verify": {
        *("DATA", "--store", "--rows", "--recipe", "--rate", "--count", "--unit", "--mask-share", "--random-share"),
        *("--tokenizer", "--log"),
    },
    "pretrain": {"RECIPE", "--set", "--out", "--fresh", "--dry-run", "--strict", "--address", "--log"},
    "evaluate": {"RUN", "--log"},
    "export": {"RUN", "--out", "--log"},
    "recipes": {"NAME"},
    "doctor": {"RECIPE", "--set", "--address", "--cluster"},
}


def surface(of: typer.Typer) -> dict[str, set[str]]:
    """Commands, and for each the metavars of its arguments and the names of its options, help aside."""
    commands = typer.main.get_command(of).commands
    return {
        name: {
            part
            for parameter in command.params
            for part in ([parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts)
            if part not in ("-h", "--help")
        }
        for name, command in commands.items()
    }


def test_the_surface_is_frozen():
    assert surface(app) == SURFACE


def test_the_check_can_fail():
    other = typer.Typer()

    @other.command()
    def one(x: int = 1) -> None: ...

    @other.command()
    def two() -> None: ...

    assert surface(other) == {"one": {"--x"}, "two": set()}


@pytest.mark.parametrize("command", [c.callback for c in app.registered_commands], ids=lambda c: c.__name__)
def test_every_option_is_handed_to_something(command):
    """No option that does nothing: each parameter's name stands in the body of its command."""
    source = inspect.getsource(command)
    body = source[source.index('"""') :]
    for name in inspect.signature(command).parameters:
        assert name in body, f"{command.__name__} takes {name} and does not use it"


def test_every_command_and_option_has_help():
    for name, command in typer.main.get_command(app).commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name}"

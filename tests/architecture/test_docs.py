"""What README and docs say can be checked: commands parse, recipes load, links lead somewhere, tests exist."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml

from pipelines.cli import app
from pipelines.recipe import load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTIONS = {"KEY=VALUE": "seed=1", "FOLDER": "runs/x", "RAY": "auto", "RUN": "runs/x", "RECIPE": "demo"}
"""What stands for the placeholders that pages use."""


def fenced(text: str, *languages: str) -> list[str]:
    """The fenced blocks of these languages."""
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(text: str) -> list[str]:
    """Every papermoth command of a page: lines of bash blocks, and inline code that is a whole command."""
    lines = [
        line
        for block in fenced(text, "bash", "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if "papermoth " in line
    ]
    inline = re.findall(r"`(papermoth [^`\n]+)`", FENCE.sub("", text))
    return [line[line.index("papermoth ") :] for line in [*lines, *inline]]


def parse(line: str) -> None:
    """Parse a command as the command line would, without running it; raises on an error of use."""
    words = shlex.split(line, comments=True)[1:]
    group = typer.main.get_command(app)
    if words[0] in ("-h", "--help"):
        return
    context = group.make_context("papermoth", [OPTIONS.get(word, word) for word in words], resilient_parsing=False)
    with context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        if "--help" not in rest:
            command.make_context(name, rest, parent=context)


def recipes(text: str) -> list[str]:
    """The YAML blocks that are whole recipes: they name an objective and how to train."""
    blocks = fenced(text, "yaml", "yml")
    return [block for block in blocks if {"objective", "train"} <= (yaml.safe_load(block) or {}).keys()]


def anchors(text: str) -> set[str]:
    """The anchors that headings make, as code hosts build them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """Relative links of a page that lead nowhere."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            broken.append(target)
    return broken


@cache
def functions(path: Path) -> frozenset[str]:
    """Names of the functions in a Python file."""
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def missing_tests(text: str) -> list[str]:
    """Tests, and folders or files of tests, that a page names in code and that are not there."""
    missing = []
    for name in re.findall(r"`(tests/[\w/.]+(?:::\w+)?)`", text):
        file, _, function = name.partition("::")
        path = ROOT / file
        if not path.exists() or (function and function not in functions(path)):
            missing.append(name)
    return missing


def missing_files(text: str) -> list[str]:
    """Source files that a page names by their whole path and that are not there."""
    named = re.findall(r"`((?:corruption|trainers|pipelines|benchmarks|docs)/[\w/]*(?:\.\w+)?)`", text)
    return [name for name in named if not (ROOT / name).exists()]


def each(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_commands_parse(page):
    for line in commands(page.read_text("utf-8")):
        try:
            parse(line)
        except Exception as error:  # of typer's own classes, which have moved before
            told = error.format_message() if hasattr(error, "format_message") else repr(error)
            pytest.fail(f"{page.name}: {line}: {told}")


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_recipes_load(page, tmp_path):
    for number, text in enumerate(recipes(page.read_text("utf-8"))):
        file = tmp_path / f"recipe-{number}.yaml"
        file.write_text(text, "utf-8")
        assert load_recipe(file).name == f"recipe-{number}"


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_other_yaml_is_yaml(page):
    for block in fenced(page.read_text("utf-8"), "yaml", "yml"):
        assert isinstance(yaml.safe_load(block), dict)


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_corruption_steps_on_their_own_parse(page):
    from corruption import Chain

    for block in fenced(page.read_text("utf-8"), "yaml", "yml"):
        steps = yaml.safe_load(block).get("corruption")
        if steps is not None:
            assert len(Chain.parse(steps).steps) == len(steps)


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_python_blocks_compile_and_import_what_exists(page):
    for block in fenced(page.read_text("utf-8"), "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module == "corruption":
                import corruption

                assert {alias.name for alias in node.names} <= set(corruption.__all__)


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_named_tests_and_files_exist(page):
    text = page.read_text("utf-8")
    assert missing_tests(text) + missing_files(text) == []


@pytest.mark.parametrize("page", PAGES, ids=each)
def test_lines_are_finished(page):
    text = page.read_text("utf-8")
    assert "@@" not in text and "TODO" not in text and text.endswith("\n")


def test_every_page_is_reached_from_the_readme():
    text = (ROOT / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", text))
    assert linked == {page.name for page in PAGES[1:]}


def test_recipe_keys_and_their_defaults_are_on_the_pages():
    """A key that a recipe can have and no page names would be a secret."""
    from pipelines import recipe_sections
    from pipelines.formats.unit import Source
    from pipelines.recipe import Recipe
    from trainers.models.spec import ModelSpec
    from trainers.settings import TrainSettings

    sections = [
        *(Recipe, ModelSpec, TrainSettings, Source),
        *(recipe_sections.CorpusSpec, recipe_sections.TokenizerSpec, recipe_sections.TrainTokenizer),
        *(recipe_sections.SamplerSpec, recipe_sections.EvaluationSpec),
        *(recipe_sections.ClusterSpec, recipe_sections.TrackingSpec),
    ]
    pages = [ROOT / "docs" / name for name in ("training.md", "corpora.md", "clusters.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    keys = [key for section in sections for key in section.model_fields]
    unnamed = [key for key in keys if not re.search(rf"\b{key}\b", text)]
    assert unnamed == []


def test_options_and_exit_codes_are_on_the_page():
    from pipelines import cli

    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for name, command in typer.main.get_command(app).commands.items():
        assert f"`papermoth {name}" in text, name
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option == "--help" or option in text, f"{name} {option}"
    for code in (cli.DONE, cli.FAILED, cli.WRONG_INPUT, cli.INTERRUPTED, cli.BROKEN_PIPE, cli.TERMINATED):
        assert re.search(rf"\b{code}\b", text)


def test_the_checks_can_fail(tmp_path):
    text = "```bash\nX=1 .venv/bin/papermoth prepare demo --strikt  # c\n```\nand `papermoth fly`.\n"
    assert commands(text) == ["papermoth prepare demo --strikt  # c", "papermoth fly"]
    for line in commands(text):
        with pytest.raises(Exception, match=r"(?i)strikt|fly"):
            parse(line)
    page = tmp_path / "a.md"
    page.write_text("# One\n[a](b.md) [c](#one) [d](#two) [e](https://x)\n")
    assert broken_links(page) == ["b.md", "#two"]
    here = Path(__file__).relative_to(ROOT)
    assert missing_tests(f"`tests/none.py` `{here}::test_no` `{here}::test_links_lead_somewhere`") == [
        "tests/none.py",
        f"{here}::test_no",
    ]
    assert missing_files("`pipelines/nothing.py` `corruption/noise.py`") == ["pipelines/nothing.py"]
    assert len(recipes("```yaml\nobjective: {}\ntrain: {}\n```\n```yaml\na: 1\n```\n")) == 1

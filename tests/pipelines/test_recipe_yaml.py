from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corruption.errors import InputError
from pipelines.recipe_yaml import dotted, override, read_file, read_tree


def value(text):
    return read_tree(f"x: {text}", "r.yaml").data["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_048_576", 1_048_576),
        ("-3", -3),
        ("010", 10),
        ("0x1F", 31),
        ("4e-4", 0.0004),
        ("4.0e-4", 0.0004),
        ("1e5", 100_000),
        ("1.5E3", 1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        # YAML 1.1 would make booleans, sexagesimal numbers, dates and infinity of these
        ("no", "no"),
        ("on", "on"),
        ("True", "True"),
        ("12:30:45", "12:30:45"),
        ("2024-01-31", "2024-01-31"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        ('"5"', "5"),
        ("'true'", "true"),
        ("wiki/*.parquet", "wiki/*.parquet"),
        ("[1, a, 2.5]", [1, "a", 2.5]),
        ("{a: {b: 1}}", {"a": {"b": 1}}),
    ],
)
def test_scalars_are_what_they_look_like(text, expected):
    found = value(text)
    assert found == expected and type(found) is type(expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_as_python_writes_it_comes_back(number):
    assert float(value(repr(number))) == number


@given(st.integers(-(10**30), 10**30))
def test_any_integer_comes_back_with_and_without_underscores(number):
    assert value(str(number)) == number
    assert value(f"{number:_}") == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "r.yaml:3: a is given twice (r.yaml:1 has it); keep one"),
        ("a:\n  b: 1\n  b: 1\n", "r.yaml:3: a.b is given twice (r.yaml:2 has it); keep one"),
        ("a: &x 1\nb: *x\n", "r.yaml:2: is not valid YAML (aliases are not read in recipes); mend the line"),
        ("a: 1\n---\nb: 2\n", "r.yaml:2: starts a second YAML document; keep one document in a recipe"),
        ("a: !!python/name:os.system x\n", "r.yaml:1: a has the tag"),
        ("a: !!int 5\n", "r.yaml:1: a has the tag"),
        ("a: [1\nb: 2\n", "r.yaml:2: is not valid YAML"),
        ("a:\n\tb: 1\n", "r.yaml:2: is not valid YAML"),
        ("? [1, 2]\n: 3\n", "r.yaml:1: a key is a list or a mapping"),
        ("", "r.yaml: is empty; a recipe is one YAML mapping"),
        ("# only a comment\n", "r.yaml: is empty"),
        ("- a\n- b\n", "r.yaml: holds no mapping"),
        ("just text", "r.yaml: holds no mapping"),
    ],
)
def test_what_is_refused_names_the_line(text, message):
    with pytest.raises(InputError) as error:
        read_tree(text, "r.yaml")
    assert str(error.value).startswith(message)


def test_a_merge_key_is_an_ordinary_key():
    assert read_tree("a: {<<: {b: 1}}", "r").data == {"a": {"<<": {"b": 1}}}


def test_endless_nesting_is_one_line():
    with pytest.raises(InputError, match="nested too deeply"):
        read_tree("a: " + "[" * 20_000, "r.yaml")


def test_places_are_lines_of_keys_and_items():
    tree = read_tree("a: 1\nb:\n  c: 2\n  d:\n    - 3\n    - {e: 4}\n", "r.yaml")
    assert tree.place(("b", "c")) == "r.yaml:3"
    assert tree.place(("b", "d", 1, "e")) == "r.yaml:6"
    assert tree.place(("b", "missing", "deeper")) == "r.yaml:2"
    assert tree.place(("missing",)) == "r.yaml"


def test_files(tmp_path):
    path = tmp_path / "é r.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: \xc3\xa9\r\nb: 1\r\n")
    assert read_file(path).data == {"a": "é", "b": 1}
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(InputError, match="is not UTF-8 at byte 3; save it as UTF-8"):
        read_file(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_file(tmp_path / "none.yaml")


TREE = "a: 1\nb: {c: 2}\nsteps:\n  - {kind: mask, rate: 0.1}\n  - {kind: mask, name: again}\nnone:\n"


@pytest.mark.parametrize(
    ("setting", "path", "expected"),
    [
        ("a=5", ("a",), 5),
        ("a=4e-4", ("a",), 0.0004),
        ("a=x=y", ("a",), "x=y"),
        ("a=", ("a",), None),
        ("b.c={d: [1]}", ("b", "c"), {"d": [1]}),
        ("b.new=1", ("b", "new"), 1),
        ("new.deep=1", ("new", "deep"), 1),
        ("none.deep=1", ("none", "deep"), 1),
        ("steps.0.rate=0.3", ("steps", 0, "rate"), 0.3),
        ("steps.mask.rate=0.3", ("steps", 0, "rate"), 0.3),
        ("steps.again.rate=0.3", ("steps", 1, "rate"), 0.3),
    ],
)
def test_overrides(setting, path, expected):
    tree = read_tree(TREE, "r.yaml")
    override(tree, setting)
    here = tree.data
    for part in path:
        here = here[part]
    assert here == expected
    assert tree.place(path) == f"--set {setting}"
    assert tree.place(("b",)) == ("r.yaml:2")


def test_an_override_forgets_the_lines_of_what_it_replaces():
    tree = read_tree(TREE, "r.yaml")
    override(tree, "b={c: 3}")
    assert tree.place(("b", "c")) == "--set b={c: 3}"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("a", "--set a: is not KEY=VALUE; write it like --set train.steps=1000"),
        ("=1", "--set =1: is not KEY=VALUE"),
        ("a..b=1", "--set a..b=1: is not KEY=VALUE"),
        ("a.b=1", "--set a.b=1: a is a value (1), not a section; set a itself"),
        ("steps.2.rate=1", "--set steps.2.rate=1: steps has no item '2'; name one by its number, 0 to 1"),
        ("steps.other.rate=1", "--set steps.other.rate=1: steps has no item 'other'"),
        ("a=[", "--set a=[: is not valid YAML"),
        ("a={b: 1, b: 2}", "--set a={b: 1, b: 2}: a.b is given twice"),
        ("a=\udcff", "--set: 'a=\\udcff' is not UTF-8"),
    ],
)
def test_overrides_that_are_refused(setting, message):
    with pytest.raises(InputError) as error:
        override(read_tree(TREE, "r.yaml"), setting)
    assert str(error.value).startswith(message)


def test_dotted():
    assert dotted(("a", 0, "b")) == "a.0.b"

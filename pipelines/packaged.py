"""Files that installed Python packages carry, named `package:module/path/inside`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from corruption.errors import InputError

PREFIX = "package:"
_EXTRAS = {"gensim": "demo"}


def packaged_path(name: str) -> str:
    """The file that `package:module/path` names, found without importing the module; any other text as it is.

    Raises:
        InputError: no such package (with the command that installs it), or it carries no such file.
    """
    if not name.startswith(PREFIX):
        return name
    module, _, inside = name.removeprefix(PREFIX).partition("/")
    if not module.isidentifier() or not inside:
        raise InputError(
            "corpus.source", f"{name!r} names no file of a package", "write package:module/path/of/file"
        )
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        extra = _EXTRAS.get(module)
        install = f"pip install 'papermoth[{extra}]'" if extra else f"install the package {module}"
        raise InputError("corpus.source", f"the package {module} of {name!r} is not installed", install)
    for folder in spec.submodule_search_locations:
        if (path := Path(folder, inside)).exists():
            return str(path)
    raise InputError(
        "corpus.source", f"the installed package {module} has no {inside!r}", "install a release that has it"
    )

"""Reaching an MLflow tracking store: its address, a client without global state, patience and silence."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from corruption.errors import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

T = TypeVar("T")
Warn = Callable[[str], None]
_SCHEMES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql", "databricks", "databricks-uc", "uc")
_environment = threading.RLock()


@dataclass(frozen=True)
class RunHandle:
    """Where a run lives: picklable, and all that another process needs to write to it."""

    uri: str
    run_id: str
    experiment: str


def log_warning(text: str) -> None:
    """The default way to warn: through `logging`, which writes to stderr when nobody configured it."""
    logging.getLogger("papermoth.tracking").warning("warning: %s", text)


def resolve_uri(uri: str) -> str:
    """Make a tracking address independent of the working directory.

    sqlite addresses (and bare paths ending in .db) become absolute, with `~` expanded; servers pass through.

    Raises:
        InputError: if it is a folder store, an in-memory database or an unknown scheme.
    """
    scheme = urlsplit(uri).scheme.partition("+")[0] if "://" in uri else ""
    if uri in ("databricks", "databricks-uc"):
        return uri
    if scheme in ("", "file"):
        if not scheme and uri.endswith((".db", ".sqlite", ".sqlite3")):
            return _sqlite_uri(Path(uri), "")
        raise InputError(
            f"tracking.uri {uri!r}",
            "MLflow does not write to plain folders any more",
            "give a database (sqlite:///runs/mlflow.db) or a server (http://host:5000)",
        )
    if scheme not in _SCHEMES:
        raise InputError(
            f"tracking.uri {uri!r}", f"unknown scheme {scheme!r}", f"use one of {', '.join(_SCHEMES[:6])}"
        )
    if scheme != "sqlite":
        return uri
    from sqlalchemy.engine import make_url

    database = make_url(uri).database
    if not database or database == ":memory:":
        raise InputError(
            f"tracking.uri {uri!r}",
            "a database in memory is lost with its process",
            "name a file, such as sqlite:///runs/mlflow.db",
        )
    return _sqlite_uri(Path(database), uri.partition("?")[2])


def sqlite_path(uri: str) -> Path | None:
    """The file behind a resolved sqlite address, or None for any other store."""
    if not uri.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    database = make_url(uri).database
    return Path(database) if database else None


def _sqlite_uri(path: Path, query: str) -> str:
    from sqlalchemy.engine import make_url

    absolute = os.path.abspath(path.expanduser())
    plain_uri = f"sqlite:///{absolute}"
    # Versions of SQLAlchemy differ in whether they decode the path; whichever text leads back to it is right.
    escaped = "sqlite:///" + quote(absolute)
    uri = plain_uri if make_url(plain_uri).database == absolute else escaped
    if make_url(uri).database != absolute:
        raise InputError(
            f"tracking.uri {absolute!r}",
            "this path cannot be written as an address",
            "choose a plainer folder name",
        )
    return f"{uri}?{query}" if query else uri


def how_to_open(uri: str) -> str:
    """The command (or the address) with which a person looks at the runs of a resolved store."""
    return uri if uri.startswith("http") else f"mlflow ui --backend-store-uri '{uri}'"


def client(uri: str) -> MlflowClient:
    """A client for exactly this store; imports mlflow on first use, with telemetry, chatter and bars off."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    from mlflow.tracking import MlflowClient

    for name in ("mlflow.store.db.utils", "alembic.runtime.migration", "mlflow.system_metrics"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return MlflowClient(tracking_uri=uri)


@contextlib.contextmanager
def impatient() -> Iterator[None]:
    """Give up on a server that does not answer in seconds, where mlflow itself would try for minutes.

    What the user set in the environment stays.
    """
    wanted = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
    with _environment:
        ours = {name: value for name, value in wanted.items() if name not in os.environ}
        os.environ.update(ours)
        try:
            yield
        finally:
            for name in ours:
                os.environ.pop(name, None)


@contextlib.contextmanager
def only_warns(doing: str, warn: Warn) -> Iterator[None]:
    """Turn any failure inside into one warning: once a run is open, losing tracking never stops a job."""
    try:
        yield
    except Exception as error:
        warn(f"tracking: {doing} failed ({short_reason(error)}); the job goes on")


def short_reason(error: BaseException) -> str:
    """The first sentence of what went wrong, without a page of SQL or of HTTP."""
    text = str(error).split("[SQL:")[0].split("(Background on this error")[0]
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def passing(error: BaseException) -> bool:
    """Whether trying again may help: locks and lost connections, but not a request that the store refuses."""
    code = getattr(error, "error_code", "")
    return code not in (
        "INVALID_PARAMETER_VALUE",
        "BAD_REQUEST",
        "RESOURCE_DOES_NOT_EXIST",
        "RESOURCE_ALREADY_EXISTS",
    )


def with_retries(call: Callable[[], T], tries: int = 3, first_pause: float = 0.2) -> T:
    """Call, and call again with growing pauses while the failure may pass."""
    for attempt in range(tries):
        try:
            return call()
        except Exception as error:
            if attempt == tries - 1 or not passing(error):
                raise
            time.sleep(first_pause * 4**attempt)
    raise AssertionError("unreachable")


@contextlib.contextmanager
def creating(uri: str) -> Iterator[None]:
    """Hold the right to create or migrate a sqlite store, so that jobs that start together do not race.

    Raises:
        InputError: if the file cannot be made, read or written, or is not a database.
    """
    path = sqlite_path(uri)
    if path is None:
        yield
        return
    where = f"tracking.uri {uri!r}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            where, f"cannot make its folder ({error.strerror})", "choose a place you can write to"
        ) from None
    # mlflow makes a folder under the undecoded name as well: where that differs, it is litter.
    litter = Path(uri.removeprefix("sqlite:///").partition("?")[0]).parent
    was_there = litter.exists()
    with contextlib.ExitStack() as held:
        _probe(path, where)
        _lock(path, held)
        yield
    if not was_there:
        with contextlib.suppress(OSError):
            litter.rmdir()


def _lock(path: Path, held: contextlib.ExitStack) -> None:
    from filelock import FileLock, Timeout

    # Some network file systems cannot lock: the retries around us are then the only protection.
    with contextlib.suppress(OSError, NotImplementedError, Timeout):
        held.enter_context(FileLock(path.with_name(f".{path.name}.lock"), timeout=60))


def _probe(path: Path, where: str) -> None:
    # mlflow retries an unreadable file for minutes and then prints a page of SQL; sqlite says it at once.
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("PRAGMA schema_version").fetchone()
            database.rollback()
    except sqlite3.Error as error:
        raise InputError(
            where,
            f"cannot be used ({error})",
            "give a database that this account may write to, or a new file name",
        ) from None

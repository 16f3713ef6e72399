"""A Ray head of our own, as `ray start` makes it: free ports, its own folder and token, and ended by pid."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.end_to_end.tiny import environment

PORTS = (
    "port",
    "dashboard-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "ray-client-server-port",
)


@dataclass(frozen=True)
class Head:
    """Where jobs are submitted, and the environment of one who may."""

    dashboard: str
    token: Path

    def environment(self) -> dict[str, str]:
        """Of a client that has the token."""
        return {**outsider(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)}


def outsider() -> dict[str, str]:
    """The environment of a client without a token; nothing of this checkout is on Python's path."""
    inherited = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**inherited, "PATH": path, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def ray_head(cpus: int) -> Iterator[Head]:
    """A head that answers, and all of whose processes are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="head-", ignore_cleanup_errors=True) as folder:
        token = Path(folder) / "token"
        token.write_text(os.urandom(32).hex())
        token.chmod(0o600)
        ports = dict(zip(PORTS, free_ports(len(PORTS))))
        head = Head(f"http://127.0.0.1:{ports['dashboard-port']}", token)
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(
                [
                    *(str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--disable-usage-stats"),
                    *("--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1", f"--temp-dir={folder}/ray"),
                    *(f"--num-cpus={cpus}", "--num-gpus=0", f"--object-store-memory={256 << 20}"),
                    *(f"--{name}={port}" for name, port in ports.items()),
                ],
                cwd=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=head.environment(),
            )
            try:
                wait_until_it_answers(head, process, log)
                yield head
            finally:
                end(process)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody has at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def wait_until_it_answers(head: Head, process: subprocess.Popen[bytes], log, seconds: float = 90) -> None:
    """Wait for the dashboard's list of jobs."""
    request = urllib.request.Request(
        f"{head.dashboard}/api/jobs/", headers={"Authorization": f"Bearer {head.token.read_text()}"}
    )
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except (OSError, urllib.error.URLError) as fault:
            if process.poll() is not None or time.monotonic() > until:
                log.seek(0)
                raise AssertionError(f"the head does not answer ({fault}):\n{log.read()[-4000:]}") from None
            time.sleep(0.3)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all its descendants: asked first, then killed, by pid."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=8)
    for one in alive:
        try:
            family += one.children(recursive=True)
            one.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=10)
    process.wait(10)

from __future__ import annotations

import pytest
import torch

from pipelines.threads import share_cores


@pytest.mark.parametrize(
    ("cores", "processes", "threads"), [(8, 1, 7), (8, 3, 2), (8, 20, 1), (2, 1, 1), (1, 1, 1), (None, 2, 1)]
)
def test_each_process_gets_its_share_of_all_cores_but_one(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, processes: int, threads: int
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    share_cores(processes)
    assert asked == [threads]

"""A job that a node starts has a directory on the node's disk, and leaves nothing there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import QuadlogError
from quadlog.replay import job
from quadlog.replay.job import SCRATCH, run_job
from quadlog.settings import WorkerSettings

if TYPE_CHECKING:
    from pathlib import Path

NOTES = """
import json, os, sys
note, code, *command = sys.argv[1:]
place = command[command.index("--scratch") + 1]
open(os.path.join(place, "spilled"), "w").close()
json.dump([os.getcwd(), sorted(os.listdir(place)), command], open(note, "w"))
sys.exit(int(code))
"""
"""Stands for the command: it notes how it was started, and leaves a file."""


@pytest.mark.parametrize("code", [0, 3])
def test_it_begins_with_an_empty_one_and_ends_without(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, note = tmp_path / "data", tmp_path / "note"
    scratch = data / SCRATCH
    scratch.mkdir(parents=True)
    (scratch / "of a killed one").touch()
    monkeypatch.setattr(
        job, "leashed", lambda command: [sys.executable, "-c", NOTES, str(note), str(code), *command]
    )
    values = {"node-id": "w1", "dc": "dc1", "kafka": "k:1", "port": 1, "worker-url": "http://w1:1"}
    settings = WorkerSettings.model_validate(values | {"data-dir": data, "spark-memory": 600})
    if code:
        with pytest.raises(QuadlogError, match="quadlog compact ended with 3"):
            run_job("compact", data / "bundle", settings, {"--applied": "x"})
    else:
        run_job("compact", data / "bundle", settings, {"--applied": "x"})
    cwd, found, command = json.loads(note.read_text())
    assert (cwd, found) == (str(scratch), ["spilled"])
    assert command[-18:] == [
        *("-m", "quadlog", "compact", str(data / "bundle")),
        *("--kafka", "k:1", "--dc", "dc1", "--repository", "main", "--spark", "local[2]", "--memory", "600"),
        *("--scratch", str(scratch), "--applied", "x"),
    ]
    assert not scratch.exists()

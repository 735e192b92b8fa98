"""The process that makes reports reads its standard input; whatever it does, the master gets an outcome."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.errors import QuadlogError
from quadlog.master.split_reports import report_job as module
from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_job import MODULE, make_reports
from quadlog.master.split_reports.report_request import EndedSide, WantedReports
from quadlog.settings import MasterSettings

if TYPE_CHECKING:
    from pathlib import Path

SIDE = EndedSide("m3", "dc3", 1_000, 7)
WANTED = WantedReports(sides=(SIDE,), urgent=(), known=("1-0a",))
NOTES = """
import json, os, sys
note, code, answer, *command = sys.argv[1:]
json.dump([os.getcwd(), command, json.load(sys.stdin)], open(note, "w"))
print("Java says something")
print(answer)
sys.exit(int(code))
"""
"""Stands for the process."""
ANSWER = json.dumps({"made": ["7-0b"], "missing": [], "failed": [], "error": ""})


def settings(path: Path) -> MasterSettings:
    values: dict[str, Any] = {
        "node-id": "m1",
        "dc": "dc1",
        "kafka": "k1:1",
        "port": 1,
        "master-url": "http://m1",
        "data-dir": path,
        "spark-memory": 600,
        "kafka-security-protocol": "SASL_PLAINTEXT",
        "kafka-sasl-mechanism": "PLAIN",
        "kafka-sasl-username": "u1",
        "kafka-sasl-password": "secret-1",
        "peer": {
            "3": {
                "id": "m3",
                "dc": "dc3",
                "url": "http://m3",
                "kafka": "k3:1",
                "kafka-sasl-username": "u3",
                "kafka-sasl-password": "secret-3",
            }
        },
    }
    return MasterSettings.model_validate(values)


@pytest.mark.parametrize(("code", "answer"), [(0, ANSWER), (1, ANSWER), (3, ""), (0, "words")])
def test_it_is_told_all_and_leaves_nothing(
    code: int, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, note = ReportFiles(tmp_path / "data"), tmp_path / "note"
    monkeypatch.setattr(
        module,
        "leashed",
        lambda command: [sys.executable, "-c", NOTES, str(note), str(code), answer, *command],
    )
    run = partial(make_reports, files, settings(tmp_path / "data"), {"dc1": "k1:1", "dc3": "k3:1"})
    if answer == ANSWER:
        assert run(WANTED).made == ("7-0b",)
    else:
        with pytest.raises(QuadlogError, match=f"ended with {code}, without an answer"):
            run(WANTED)
    cwd, command, told = json.loads(note.read_text())
    assert (cwd, command[-2:]) == (str(files.scratch), ["-m", MODULE])
    assert "secret" not in str(command)
    logins = {
        servers: login["values"]["kafka_sasl_password"] for servers, login in told["credentials"].items()
    }
    assert logins == {"k1:1": "secret-1", "k3:1": "secret-3"}
    assert (told["kafkas"], told["spark_memory"]) == ({"dc1": "k1:1", "dc3": "k3:1"}, 600)
    assert (told["sides"], told["urgent"], told["known"]) == ([[*SIDE]], [], ["1-0a"])
    assert [*files.path.iterdir()] == []


def test_one_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 0.2)
    hangs = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(module, "leashed", lambda _: hangs)
    run = partial(make_reports, ReportFiles(tmp_path), settings(tmp_path), {"dc1": "k1:1"})
    with pytest.raises(QuadlogError, match="was killed after"):
        run(WANTED)


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "splits").write_text("a file")
    run = partial(make_reports, ReportFiles(tmp_path), settings(tmp_path), {"dc1": "k1:1"})
    with pytest.raises(QuadlogError, match="could not be run in"):
        run(WANTED)

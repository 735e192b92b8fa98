"""A host without Java, or without PySpark, is an outcome that the master can show."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from quadlog.master.split_reports.report_request import EndedSide, ReportRequest
from quadlog.splits.unattended.report_process import outcome_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MODULES = ("quadlog.replay.spark", "quadlog.splits.unattended.missing_reports")


def request(path: Path) -> ReportRequest:
    return ReportRequest(
        directory=path,
        repository="main",
        kafkas={"dc1": "k:1"},
        credentials={},
        archive=None,
        spark_master="local[1]",
        spark_memory=512,
        scratch=path / ".spark",
        sides=(EndedSide("m3", "dc3", 1, 7),),
        urgent=(),
        known=(),
    )


def test_a_host_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    outcome = outcome_of(request(tmp_path))
    assert outcome.error.startswith("SetupError: Kafka needs Java and there is none")
    assert outcome.made == ()
    assert outcome.missing == ()


def test_a_host_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    outcome = outcome_of(request(tmp_path))
    assert "pyspark" in outcome.error
    assert "set split-reports to 0" in outcome.error

"""Reports on disk: which ones count, which ones are removed, and that no name leads elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from quadlog.errors import NoSuchReport
from quadlog.master.split_reports.report_files import MAKING, ReportFiles

if TYPE_CHECKING:
    from pathlib import Path


def add(files: ReportFiles, name: str, made_at: str) -> Path:
    directory = files.path / name
    directory.mkdir(parents=True)
    (directory / "report.json").write_text("{}")
    (directory / "summary.json").write_text(json.dumps({"name": name, "made_at": made_at}))
    return directory


def test_reports_are_listed_by_age(tmp_path: Path) -> None:
    files = ReportFiles(tmp_path)
    assert files.summaries() == []
    add(files, "9-0a", "2026-01-02")
    add(files, "10-0b", "2026-01-01")
    assert [one["name"] for one in files.summaries()] == ["10-0b", "9-0a"]


def test_what_is_not_complete_is_none(tmp_path: Path) -> None:
    files = ReportFiles(tmp_path)
    add(files, MAKING, "2026-01-01")
    add(files, "1-0a", "2026-01-01").joinpath("summary.json").unlink()
    add(files, "2-0a", "2026-01-01").joinpath("summary.json").write_text("{")
    add(files, "3-0a", "2026-01-01").rename(files.path / "4-0a")
    assert files.summaries() == []
    files.begin()
    assert not (files.path / MAKING).exists()
    assert [*files.scratch.iterdir()] == []
    files.end()
    assert not files.scratch.exists()


def test_the_oldest_are_removed(tmp_path: Path) -> None:
    files = ReportFiles(tmp_path)
    for day in range(1, 6):
        add(files, f"{10 - day}-0a", f"2026-01-0{day}")
    assert files.prune(5) == []
    assert files.prune(2) == ["9-0a", "8-0a", "7-0a"]
    assert sorted(path.name for path in files.path.iterdir()) == ["5-0a", "6-0a"]


def test_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    files = ReportFiles(tmp_path)
    path = add(files, "9-5f0c1b9a77d2", "2026-01-01")
    assert files.file("9-5f0c1b9a77d2", "json") == path / "report.json"
    with pytest.raises(NoSuchReport):
        files.file("9-5f0c1b9a77d2", "html")


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "../9-0a", "9-0a/..", "9-0a/../9-0a", ".making", "9-0A", "9-0a\n", "9-0a\0", "x" * 999],
)
def test_no_name_leads_elsewhere(tmp_path: Path, name: str) -> None:
    files = ReportFiles(tmp_path)
    (add(files, "9-0a", "2026-01-01").parent / "report.json").write_text("{}")
    (tmp_path / "report.json").write_text("{}")
    add(files, MAKING, "2026-01-01")
    with pytest.raises(NoSuchReport, match="GET /cluster/splits"):
        files.file(name, "json")


def test_the_state_survives_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    files = ReportFiles(tmp_path)
    assert files.load_state() == {}
    files.save_state({"settled": [1]})
    assert files.load_state() == {"settled": [1]}
    for text in ("{", "[]"):
        (files.path / ".state.json").write_text(text)
        assert files.load_state() == {}

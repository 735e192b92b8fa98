"""Which master has reports made, of what, how often, and what clients see of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from quadlog.clock import now
from quadlog.core.agreement.cluster_view import KnownMaster
from quadlog.core.model import START, RejoinReport
from quadlog.errors import NoSuchReport, QuadlogError, SetupError
from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_request import EndedSide, ReportOutcome, WantedReports
from quadlog.master.split_reports.report_schedule import PAUSES_S
from quadlog.master.split_reports.split_reporter import SplitReporter
from tests.support.agreement.cluster import Member

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.core.agreement.cluster_view import ClusterView

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
NAME = "7-0a"
FIRST_MS = PAUSES_S[0] * 1000


@dataclass
class Scene:
    """A reporter whose process is a function; time passes by `tick`."""

    path: Path
    most: int = 20
    dc: str = "dc1"
    at: int = field(default_factory=lambda: now().wall)
    moment: float = field(default_factory=lambda: now().steady)
    asked: list[WantedReports] = field(default_factory=list)
    works: list[Callable[[], None]] = field(default_factory=list)
    outcome: Callable[[WantedReports], ReportOutcome] = lambda _: ReportOutcome()

    def __post_init__(self) -> None:
        """All are together."""
        self.cluster: ClusterView = Member("m1", MASTERS).core.cluster()
        assert (self.cluster.view.home, self.cluster.has_majority) == ("dc1", True)
        self.start()

    def start(self) -> None:
        """Also after a restart."""
        self.works.clear()
        self.files = ReportFiles(self.path)
        self.reporter = SplitReporter(
            self.dc, MASTERS, self.files, most=self.most, run=self.run, begin=self.works.append
        )

    def run(self, wanted: WantedReports) -> ReportOutcome:
        self.asked.append(wanted)
        return self.outcome(wanted)

    def gave_way(self, node: str = "m3", *, kept: int = 7, gave_way: int = 4, later: int = 0) -> EndedSide:
        """A master posts so."""
        said = RejoinReport(self.at + later, kept, gave_way, 0)
        masters = {**self.cluster.masters, node: KnownMaster(START, b"", said)}
        self.cluster = replace(self.cluster, masters=masters)
        return EndedSide(node, MASTERS[node], said.at, kept)

    def tick(self, seconds: float = 0.0, *, leads: bool = True) -> None:
        """Later; then what runs in another thread runs to its end."""
        self.moment += seconds * 1000
        self.reporter.tick(self.cluster, self.moment, leads=leads)
        while self.works:
            self.works.pop()()

    def wait(self, *, leads: bool = True) -> None:
        """Until the first attempt."""
        self.tick(2, leads=leads)
        self.tick(PAUSES_S[0], leads=leads)

    def made(self, name: str = NAME, day: int = 1) -> Callable[[WantedReports], ReportOutcome]:
        """A process that makes one report."""

        def make(wanted: WantedReports) -> ReportOutcome:
            del wanted
            directory = self.files.path / name
            directory.mkdir(parents=True)
            summary = {"name": name, "plan": "p", "made_at": f"2026-01-0{day}", "branches": [{"name": name}]}
            (directory / "summary.json").write_text(json.dumps(summary))
            return ReportOutcome(made=(name,))

        return make


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_side_that_gave_way_is_reported_once(scene: Scene) -> None:
    side = scene.gave_way()
    scene.outcome = scene.made()
    scene.wait()
    [wanted] = scene.asked
    assert (wanted.sides, wanted.urgent, wanted.known) == ((side,), (), ())
    listed = scene.reporter.listed(scene.moment)
    assert [one["name"] for one in listed["reports"]] == [NAME]
    assert (listed["making"], listed["waiting"], listed["failed"]) == ([], [], [])
    assert scene.reporter.status() == {"made": 1, "newest": NAME, "making": False, "failed": None}
    for _ in range(5):
        scene.tick(3600)
    scene.start()
    scene.wait()
    assert len(scene.asked) == 1, "also after a restart"
    assert scene.reporter.status()["newest"] == NAME


def test_what_is_dropped_is_not_made_again(scene: Scene) -> None:
    scene.gave_way()
    scene.outcome = scene.made()
    scene.wait()
    scene.reporter.drop(NAME)
    assert not (scene.files.path / NAME).exists()
    assert scene.reporter.listed(scene.moment)["reports"] == []
    assert scene.reporter.status()["made"] == 0
    scene.tick(3600)
    scene.start()
    scene.wait()
    assert len(scene.asked) == 1
    with pytest.raises(NoSuchReport):
        scene.reporter.drop(NAME)


def test_nothing_is_reported_where_nothing_gave_way(scene: Scene) -> None:
    scene.gave_way(gave_way=0)
    scene.wait()
    assert not scene.asked


def test_a_master_that_stands_by_reports_nothing(scene: Scene) -> None:
    scene.gave_way()
    scene.wait(leads=False)
    assert not scene.asked
    assert not scene.reporter.is_reporter
    scene.wait()
    assert len(scene.asked) == 1
    assert scene.reporter.is_reporter


def test_a_data_centre_that_is_not_the_home_reports_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, dc="dc2")
    scene.gave_way()
    scene.wait()
    assert not scene.asked


def test_a_side_without_a_majority_reports_nothing(scene: Scene) -> None:
    scene.gave_way()
    scene.cluster = replace(scene.cluster, has_majority=False)
    scene.wait()
    assert not scene.asked


def test_none_is_made_where_none_is_kept(tmp_path: Path) -> None:
    scene = Scene(tmp_path, most=0)
    scene.gave_way()
    scene.wait()
    assert not scene.asked


def test_one_process_makes_all_that_are_due_and_no_second_one_runs(scene: Scene) -> None:
    sides = scene.gave_way("m2"), scene.gave_way("m3")
    scene.tick(2)
    scene.moment += FIRST_MS
    scene.reporter.tick(scene.cluster, scene.moment, leads=True)
    [work] = scene.works
    scene.gave_way("m2", kept=20, later=1)
    for _ in range(3):
        scene.moment += 10_000
        scene.reporter.tick(scene.cluster, scene.moment, leads=True)
    assert scene.works == [work]
    listed = scene.reporter.listed(scene.moment)
    forks = {name: [one["fork"] for one in listed[name]] for name in ("making", "waiting")}
    assert forks == {"making": [7, 7], "waiting": [20]}
    assert scene.reporter.status()["making"]
    scene.tick()
    assert set(scene.asked[0].sides) == set(sides)
    scene.tick(2)
    assert [one.fork for one in scene.asked[1].sides] == [20]


def test_what_is_not_there_yet_is_tried_again(scene: Scene) -> None:
    side = scene.gave_way()
    scene.outcome = lambda _: ReportOutcome(missing=((side, "no branch yet"),))
    scene.wait()
    [one] = scene.reporter.listed(now().steady)["waiting"]
    assert (one["attempts"], one["reason"], one["again_in_s"]) == (1, "no branch yet", PAUSES_S[1])
    assert scene.reporter.status()["failed"] is None, "it is no failure"
    scene.outcome = scene.made()
    scene.tick(PAUSES_S[1] + 1)
    assert scene.reporter.status() == {"made": 1, "newest": NAME, "making": False, "failed": None}


def test_the_last_attempt_is_urgent_and_then_it_is_given_up(scene: Scene) -> None:
    side = scene.gave_way()
    scene.outcome = lambda _: ReportOutcome(missing=((side, "no branch yet"),))
    scene.wait()
    for pause in PAUSES_S[1:]:
        scene.tick(pause + 1)
    assert [one.urgent for one in scene.asked] == [()] * (len(PAUSES_S) - 1) + [(side,)]
    [one] = scene.reporter.listed(scene.moment)["failed"]
    assert (one["reason"], one["again_in_s"]) == ("no branch yet", None)
    assert scene.reporter.status()["failed"] == "no branch yet"
    scene.start()
    scene.wait()
    scene.tick(36_000)
    assert len(scene.asked) == len(PAUSES_S)
    assert scene.reporter.status()["failed"] == "no branch yet", "also after a restart"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SetupError("Kafka needs Java"), "Kafka needs Java"),
        (QuadlogError("died"), "died"),
        (OSError("other"), "OSError: other"),
        (AssertionError(), "AssertionError: "),
    ],
)
def test_a_failure_is_shown_and_stops_nothing(scene: Scene, error: Exception, said: str) -> None:
    def fail(_: WantedReports) -> ReportOutcome:
        raise error

    scene.gave_way()
    scene.outcome = fail
    scene.wait()
    assert scene.reporter.status()["failed"] == said
    scene.outcome = scene.made()
    scene.tick(PAUSES_S[1] + 1)
    assert scene.reporter.status()["failed"] is None


def test_one_that_fails_delays_no_other(scene: Scene) -> None:
    bad, good = scene.gave_way("m2"), scene.gave_way("m3")
    make = scene.made()
    scene.outcome = lambda wanted: make(wanted).model_copy(update={"failed": ((bad, "records are gone"),)})
    scene.wait()
    [one] = scene.reporter.listed(scene.moment)["waiting"]
    assert (one["node"], one["reason"]) == ("m2", "records are gone")
    scene.outcome = lambda _: ReportOutcome()
    scene.tick(PAUSES_S[1] + 1)
    assert [wanted.sides for wanted in scene.asked] == [(bad, good), (bad,)]
    assert scene.asked[1].known == (NAME,)


def test_a_restart_before_the_state_is_written_finds_the_report(scene: Scene) -> None:
    side = scene.gave_way()
    scene.made()(WantedReports(sides=(), urgent=(), known=()))
    scene.start()
    scene.wait()
    [wanted] = scene.asked
    assert (wanted.sides, wanted.known) == ((side,), (NAME,))


def test_the_oldest_reports_are_removed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, most=2)
    for day in range(1, 5):
        scene.gave_way(kept=day, later=day)
        scene.outcome = scene.made(f"{day}-0a", day)
        scene.wait()
    assert [one["name"] for one in scene.reporter.listed(0)["reports"]] == ["3-0a", "4-0a"]
    assert len(scene.asked) == 4


def test_a_full_disk_is_logged_and_ends_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scene.files, "save_state", refuse)
    scene.gave_way()
    scene.wait()
    assert len(scene.asked) == 1

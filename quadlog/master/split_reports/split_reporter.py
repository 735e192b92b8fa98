"""The reporter: has a report made of each split that is over.

All masters post what they gave up when they gave way.  One of them has it reported: the one that leads the home's data
centre, in a view with a majority, so that a side that is cut off again does not report what the others have reported.
If the home moves, a report may be made twice, which does no harm.

A side that is new here gets a report a little later, when its effects are where the report looks for them; if they are
not, or if the report fails, it is tried again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.clock import now
from quadlog.errors import QuadlogError
from quadlog.master.split_reports.report_request import EndedSide, ReportOutcome, WantedReports
from quadlog.master.split_reports.report_schedule import ReportSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.split_reports.report_files import ReportFiles
    from quadlog.master.split_reports.report_schedule import PendingReport

log = structlog.get_logger()

LOOK_MS: Final = 1000.0
"""Milliseconds between two checks."""


def in_thread(work: Callable[[], None]) -> None:
    """Run a function in a thread that does not delay the end of this process."""
    threading.Thread(target=work, name="split-report", daemon=True).start()


class SplitReporter:
    """Reporter of one master.  `tick` is called by the node's thread; any thread may read."""

    def __init__(
        self,
        dc: str,
        dc_of: Mapping[str, str],
        files: ReportFiles,
        *,
        most: int,
        run: Callable[[WantedReports], ReportOutcome],
        begin: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        """Read which reports are there.

        `most`: number of reports that are kept; 0: none is made.  `run` makes reports, in a process of its own, and
        `begin` runs a function in another thread.
        """
        self._dc, self._dc_of = dc, dc_of
        self.files: Final = files
        self._most, self._run, self._begin = most, run, begin
        self._lock: Final = threading.Lock()
        self._schedule = ReportSchedule.restored(files.load_state(), now().steady)
        self._reports = files.summaries()
        self._making: tuple[EndedSide, ...] = ()
        self._looked_at = float("-inf")
        self.is_reporter = False
        """True if this master makes the reports, as far as it knows."""

    # --- for the node's thread --------------------------------------------------------------------------

    def tick(self, cluster: ClusterView, moment: float, *, leads: bool) -> None:
        """Check at intervals whether a side gave way, and begin to make the reports that are due.

        `moment`: steady milliseconds; `leads`: whether this master leads its data centre.
        """
        if not self._most or moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        self.is_reporter = leads and cluster.has_majority and cluster.view.home == self._dc
        if not self.is_reporter:
            return
        with self._lock:
            is_news = self._schedule.note(self._ended(cluster), moment=moment, wall=now().wall)
            if is_news:
                self._save()
            if self._making or not (due := self._schedule.due(moment)):
                return
            self._making = tuple(one.side for one in due)
            wanted = WantedReports(
                sides=self._making,
                urgent=tuple(one.side for one in due if one.is_last),
                known=tuple(branch["name"] for report in self._reports for branch in report["branches"]),
            )
        self._begin(lambda: self._make(wanted))

    def _ended(self, cluster: ClusterView) -> Iterator[EndedSide]:
        """Yield the sides that gave way with entries of their own, as their masters post them."""
        for node, member in cluster.masters.items():
            said = member.rejoined
            if said is not None and said.gave_way and node in self._dc_of:
                yield EndedSide(node, self._dc_of[node], said.at, said.kept)

    # --- in another thread --------------------------------------------------------------------------------

    def _make(self, wanted: WantedReports) -> None:
        began = now().steady
        try:
            outcome = self._run(wanted)
        except QuadlogError as error:
            outcome = ReportOutcome(error=str(error))
        except Exception as error:
            log.exception("split_reporter_failed")
            outcome = ReportOutcome(error=f"{type(error).__name__}: {error}")
        moment = now().steady
        removed = self.files.prune(self._most)
        reports = self.files.summaries()
        for one in reports:
            if one["name"] in outcome.made:
                log.info(
                    "split_report_made",
                    name=one["name"],
                    plan=one["plan"],
                    took_s=round((moment - began) / 1000, 1),
                )
        for name in removed:
            log.info("split_report_removed", name=name)
        with self._lock:
            self._reports, self._making = reports, ()
            self._note(wanted.sides, outcome, moment)
            self._save()

    def _note(self, sides: Iterable[EndedSide], outcome: ReportOutcome, moment: float) -> None:
        missing, failed = dict(outcome.missing), dict(outcome.failed)
        for side in sides:
            if reason := outcome.error or failed.get(side, ""):
                _tell(self._schedule.fail(side, reason, moment, is_failure=True), moment)
            elif side in missing:
                _tell(self._schedule.fail(side, missing[side], moment, is_failure=False), moment)
            else:
                self._schedule.settle(side)

    def _save(self) -> None:
        try:
            self.files.save_state(self._schedule.state())
        except OSError as error:
            # After a restart the sides are found in posts again, and their reports on disk.
            log.warning("split_reports_unsaved", directory=str(self.files.path), reason=str(error))

    # --- for any thread -----------------------------------------------------------------------------------

    def drop(self, name: str) -> None:
        """Remove a report; it is not made again.

        Raises:
            NoSuchReport: there is none of this name.

        """
        with self._lock:
            self.files.drop(name)
            self._reports = [one for one in self._reports if one["name"] != name]
        log.info("split_report_removed", name=name)

    def listed(self, moment: float) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Return the reports, the oldest first, and what is missing; `moment`: steady milliseconds."""
        with self._lock:
            pending, making, reports = self._schedule.pending, self._making, self._reports
            shown = [(one, one.as_json(moment)) for one in pending]
        return {
            "reports": reports,
            "making": [told for one, told in shown if one.side in making],
            "waiting": [told for one, told in shown if one.side not in making and not one.is_given_up],
            "failed": [told for one, told in shown if one.is_given_up],
        }

    def status(self) -> dict[str, Any]:
        """Return what the status of a master shows."""
        with self._lock:
            failed = [one.reason for one in self._schedule.pending if one.is_failure]
        return {
            "made": len(self._reports),
            "newest": self._reports[-1]["name"] if self._reports else None,
            "making": bool(self._making),
            "failed": failed[-1] if failed else None,
        }


def _tell(one: PendingReport, moment: float) -> None:
    """Log that an attempt made no report."""
    again = None if one.is_given_up else round((one.due_at - moment) / 1000)
    dc, fork = one.side.dc, one.side.fork
    if one.is_failure:
        log.warning(
            "split_report_failed",
            dc=dc,
            fork=fork,
            attempts=one.attempts,
            reason=one.reason,
            again_in_s=again,
        )
    else:
        log.info(
            "split_report_delayed",
            dc=dc,
            fork=fork,
            attempts=one.attempts,
            reason=one.reason,
            again_in_s=again,
        )

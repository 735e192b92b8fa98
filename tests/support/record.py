"""What a run took: seconds of each test, labs, brokers and JVMs that were started, seconds slept.

With `--junitxml FILE.xml` a table of it is left in `FILE.txt`.  A test that takes more than `BUDGET_S` has to say why
(`pytest.mark.long("reason")`), or the run fails; those of `make soak` need not.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

import pytest

from tests.support.speed import slowness

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

BUDGET_S: Final = 20.0
"""Of one test, set-up included, on a machine as fast as that of `speed.py`, with a core for whoever wants one."""
SLOWEST: Final = 50
STARTS: Final = Counter[str]()
"""What was started so far, by kind."""


class Record:
    """Of this run.  A pytest plugin."""

    def __init__(self) -> None:
        """Nothing ran yet."""
        self.took: Final = defaultdict[str, float](float)
        """Seconds, by test."""
        self.over_budget: Final = dict[str, float]()
        """Tests that took more than they may, and do not say why; with what they took on cores of their own."""
        self._slept = 0.0
        self._sleep: Final = time.sleep
        time.sleep = self._slept_by_tests
        sys.addaudithook(_note_start)

    def _slept_by_tests(self, seconds: float | SupportsIndex) -> None:
        if threading.current_thread() is threading.main_thread():
            self._slept += float(seconds)
        self._sleep(seconds)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up set-up, call and teardown."""
        self.took[report.nodeid] += report.duration
        if report.when == "teardown" and not {"long", "soak"}.intersection(report.keywords):
            took = self.took[report.nodeid] / busyness()
            if took > BUDGET_S:
                self.over_budget[report.nodeid] = took

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A test above the budget fails the run."""
        if self.over_budget and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Leave the table next to the XML."""
        lines = [
            f"{seconds:8.1f}  {test}\n" for test, seconds in sorted(self.took.items(), key=lambda of: -of[1])
        ]
        text = f"{sum(self.took.values()):8.1f}  all {len(self.took)} tests; {self._summary()}\n"
        terminalreporter.write_line(text.strip())
        if xml := terminalreporter.config.getoption("xmlpath", None):
            table = Path(xml).with_suffix(".txt")
            table.write_text("".join([text, *lines[:SLOWEST]]))
            terminalreporter.write_line(f"the slowest tests: {table}")
        for test, seconds in self.over_budget.items():
            terminalreporter.write_line(
                f"FAILED {test} takes {seconds:.1f} s, more than {BUDGET_S:g}: make it shorter, its long version to"
                " soak; or mark it long, with a reason"
            )

    def _summary(self) -> str:
        started = ", ".join(f"{count} {kind}" for kind, count in sorted(STARTS.items())) or "nothing"
        return f"started: {started}; slept {self._slept:.0f} s; CPU {_cpu():.0f} s"


def _cpu() -> float:
    """Seconds of this process, and of those of its children that have ended."""
    all_of_it = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in all_of_it)


def busyness() -> float:
    """By how much more a test may take than on fast cores of its own; at least 1.

    Whoever has a low priority waits for all others that want a core.
    """
    waiting = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    return waiting * (1 + os.nice(0) / 19) * slowness()


def _note_start(event: str, arguments: tuple[Any, ...]) -> None:
    """See what Python starts; what a lab starts, `RunningLab` tells."""
    if event != "subprocess.Popen":
        return
    asked = arguments[1]
    words = [str(word) for word in asked] if isinstance(asked, list | tuple) else [str(asked)]
    if words[1:5] == ["-m", "quadlog", "lab", "up"]:
        STARTS["labs"] += 1
    elif any(word.startswith("kafka.") for word in words):
        STARTS["brokers"] += "kafka.Kafka" in words
        STARTS["JVMs"] += 1
    elif Path(words[0]).name in {"java", "javac"} or any("spark-submit" in word for word in words):
        STARTS["JVMs"] += 1

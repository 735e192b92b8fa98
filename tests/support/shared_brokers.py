"""Brokers that are started once for a run of tests, and used by one lab after the other."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from tests.support.labs import RunningLab, Shape, running_lab, start_lab

if TYPE_CHECKING:
    from collections.abc import Generator


class Brokers:
    """Brokers that are started once for a run, for labs that leave them as they found them, one lab at a time.

    A lab may kill one and start it again, also with an empty disk: no other lab needs what is on it.

    Each lab has a repository, and so topics, of its own.
    """

    DCS = 3

    def __init__(self) -> None:
        self._free: list[RunningLab] = []
        self._all: list[RunningLab] = []
        self._count = 0

    @contextmanager
    def lab(self, directory: Path, **shape: Unpack[Shape]) -> Generator[RunningLab]:
        """As `running_lab`, on these brokers."""
        with self.taken() as brokers:
            self._count += 1
            shape["brokers"] = brokers.ready
            shape.setdefault("repository", f"r{self._count}")
            with running_lab(directory, **shape) as lab:
                lab.brokers = brokers
                yield lab

    @contextmanager
    def taken(self) -> Generator[RunningLab]:
        """Themselves, for a test that starts labs in its own way."""
        brokers = self._free.pop() if self._free else self._start()
        try:
            yield brokers
        finally:
            self._mend(brokers)
            self._free.append(brokers)
            if len(self._free) == len(self._all):  # those of a lab beside another one would idle from now on
                for further in self._all[1:]:
                    self._end(further)

    def bootstrap(self) -> str:
        """Bootstrap string of one of them, for tests without a lab."""
        if not self._all:
            self._free.append(self._start())
        found: str = self._all[0].dcs[0]["kafka"]
        return found

    def _mend(self, brokers: RunningLab) -> None:
        """Those that a test killed, and did not start again when it failed."""
        for broker, state in brokers.states().items():
            if state == "stopped":
                brokers.kill(broker, "CONT")
            elif state != "running":
                brokers.start(broker)

    def _start(self) -> RunningLab:
        place = Path(tempfile.mkdtemp(prefix="quadlog-brokers-"))
        lab = start_lab(place / "lab", dcs=self.DCS, masters=0, workers=0)
        self._all.append(lab)
        lab.wait_ready()
        return lab

    def stop(self) -> None:
        """At the end of the run."""
        for lab in [*self._all]:
            self._end(lab)

    def _end(self, lab: RunningLab) -> None:
        self._all.remove(lab)
        if lab in self._free:
            self._free.remove(lab)
        lab.stop()
        shutil.rmtree(lab.directory.parent, ignore_errors=True)


BROKERS = Brokers()
"""Of this run."""

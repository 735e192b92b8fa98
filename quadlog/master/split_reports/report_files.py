"""The reports in the data directory of a master: `DATA-DIR/splits/NAME/report.json`, `report.html`, `report.ttl`.

`report.rdfp` has the net change of the branches, which stays when the topics are shortened.  `summary.json` next to
them is what a list shows.  A report is moved there when it is complete; names that begin with a dot are of other files.
"""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from quadlog.errors import NoSuchReport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DIRECTORY: Final = "splits"
SUMMARY: Final = "summary.json"
PATCH: Final = "report.rdfp"
SCRATCH: Final = ".spark"
"""For what does not fit into memory, and for libraries that Java unpacks; see `quadlog/replay/job.py`."""
MAKING: Final = ".making"
"""A report that is not complete."""
_STATE: Final = ".state.json"
_NAME: Final = re.compile(r"[0-9]+-[0-9a-f]{1,64}")


class ReportFiles:
    """Directory of reports.  Any thread may read; one at a time writes."""

    def __init__(self, data_dir: Path) -> None:
        """`data_dir`: the data directory of the master; nothing is written yet."""
        self.path: Final = data_dir.absolute() / DIRECTORY
        self.scratch: Final = self.path / SCRATCH

    def begin(self) -> None:
        """Have empty directories for a process that makes reports, also after one that was killed.

        Raises:
            OSError: they cannot be made.

        """
        self.end()
        self.scratch.mkdir(mode=0o700, parents=True)

    def end(self) -> None:
        """Remove what a process has left."""
        for name in (SCRATCH, MAKING):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def summaries(self) -> list[dict[str, Any]]:
        """Return the summaries of all reports, the oldest first; one that cannot be read is none."""
        found = list[dict[str, Any]]()
        for path in self.path.glob(f"*/{SUMMARY}"):
            with suppress(OSError, ValueError):
                summary = json.loads(path.read_text("utf-8"))
                if _NAME.fullmatch(path.parent.name) and summary["name"] == path.parent.name:
                    found.append(summary)
        return sorted(found, key=lambda one: (one["made_at"], one["name"]))

    def file(self, name: str, suffix: str) -> Path:
        """Return the path of a file of a report.

        Raises:
            NoSuchReport: there is none of this name.

        """
        path = self._directory_of(name) / f"report.{suffix}"
        if not path.is_file():
            raise NoSuchReport(
                f"the report {name} is not there as {suffix}: effects of a branch were missing"
            )
        return path

    def _directory_of(self, name: str) -> Path:
        path = self.path / name
        if not _NAME.fullmatch(name) or not (path / SUMMARY).is_file():
            raise NoSuchReport(
                f"this master has no report {name[:100]!r}: GET /cluster/splits lists those that it has"
            )
        return path

    def drop(self, name: str) -> None:
        """Remove a report, and the net change of its branches.

        Raises:
            NoSuchReport: there is none of this name.

        """
        path = self._directory_of(name)
        (path / SUMMARY).unlink(missing_ok=True)  # first: what is left of it is no report
        shutil.rmtree(path, ignore_errors=True)

    def prune(self, most: int) -> list[str]:
        """Remove the oldest reports, so that at most `most` are left; return their names."""
        names = [one["name"] for one in self.summaries()]
        removed = names[: max(0, len(names) - most)]
        for name in removed:
            shutil.rmtree(self.path / name, ignore_errors=True)
        return removed

    def load_state(self) -> dict[str, Any]:
        """Return what `save_state` wrote last; empty if there is none, or if it cannot be read."""
        try:
            state: Any = json.loads((self.path / _STATE).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", state) if isinstance(state, dict) else {}

    def save_state(self, state: Mapping[str, Any]) -> None:
        """Write what must be known after a restart.

        Raises:
            OSError: it cannot be written.

        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path / f"{_STATE}.new"
        draft.write_text(json.dumps(state), "utf-8")
        draft.replace(self.path / _STATE)

"""What failed beside other processes of tests runs again, with nothing beside it.

    python -m tests.support.again RESULTS begins follows computes

ends with status 0 if all of it passes then, so many times in a row (decision 53).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

TIMES: Final = 3
"""What fails half of the time passes in one of eight."""
MOST: Final = 3
"""Where more tests fail, it is not for want of a core."""


def failures(results: Path, processes: list[str]) -> list[str]:
    """Tests that failed beside others.

    Args:
        results: where each process left `NAME.status` (how pytest ended) and `NAME.failed` (a test a line).
        processes: the names.

    Raises:
        SystemExit: a process did not end as one does whose tests passed or failed, or too many failed.

    """
    found: list[str] = []
    for name in processes:
        status = _text(results / f"{name}.status").strip()
        failed = _text(results / f"{name}.failed").splitlines()
        if (status, bool(failed)) not in {("0", False), ("1", True)}:
            raise SystemExit(
                f"{name} ended with status {status or 'none'} and {len(failed)} failed tests: see above"
            )
        found += failed
    if len(found) > MOST:
        raise SystemExit(f"{len(found)} tests failed: see above")
    return found


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def main(results: Path, processes: list[str]) -> None:
    """Run what failed again, and say what came of it."""
    failed = failures(results, processes)
    listed = "".join(f"  {test}\n" for test in failed)
    for turn in range(1, TIMES + 1):
        print(f"== again, with nothing beside it ({turn} of {TIMES}):\n{listed}", flush=True)
        ended = subprocess.run((sys.executable, "-m", "pytest", *failed), check=False)
        if ended.returncode:
            raise SystemExit(f"failed beside others, and in turn {turn} with nothing beside it:\n{listed}")
    print(f"== FAILED beside others, and passed {TIMES} times with nothing beside it: find out why\n{listed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Print which part of the product's lines the tests executed in their own processes.

    python -m tests.support.coverage .test-results

What labs run is in processes of their own and does not count here: a line that is missing may be tested nevertheless.
The percentages are for finding what no test of a package executes; there is no limit to reach.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUFFIX = ".coverage.json"
"""End of the names of the files that slipcover writes, one for each process of pytest."""


def merged(reports: Iterable[Mapping[str, object]]) -> dict[str, tuple[set[int], set[int]]]:
    """Return the executed and all lines of each file, in any of these reports."""
    lines: dict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for report in reports:
        files: Mapping[str, Mapping[str, list[int]]] = report["files"]  # type: ignore[assignment]
        for name, found in files.items():
            executed, known = lines[name]
            executed.update(found["executed_lines"])
            known.update(found["executed_lines"], found["missing_lines"])
    return lines


def by_package(lines: Mapping[str, tuple[set[int], set[int]]]) -> dict[str, tuple[int, int]]:
    """Return the number of executed lines and of all lines of each package; those of `quadlog` one by one.

    >>> by_package({"quadlog/web/server.py": ({1}, {1, 2}), "schemas/__init__.py": ({1}, {1})})
    {'quadlog/web': (1, 2), 'schemas': (1, 1)}
    """
    found: dict[str, tuple[int, int]] = {}
    for name, (executed, known) in sorted(lines.items()):
        package = "/".join(name.split("/")[:-1][:2])
        before = found.get(package, (0, 0))
        found[package] = before[0] + len(executed), before[1] + len(known)
    return found


def main(results: Path) -> None:
    """Print a line for each package, and one for all."""
    lines = merged(json.loads(path.read_text()) for path in results.glob(f"*{SUFFIX}"))
    packages = by_package(lines)
    total = sum(executed for executed, _ in packages.values()), sum(known for _, known in packages.values())
    for package, (executed, known) in [*packages.items(), ("lines executed in processes of pytest", total)]:
        print(f"{executed / max(known, 1):6.1%} of {known:6d}  {package}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

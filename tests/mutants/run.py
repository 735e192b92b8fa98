"""`make mutants`: break one rule at a time, and see the behaviour tests notice.

python -m tests.mutants.run [NAME ...]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COPIED = ("quadlog", "producers", "consumers", "schemas", "tests", "pyproject.toml")
BEHAVIOUR = ("tests/core/test_weather.py", "tests/core/test_scenarios.py")
TIMEOUT = 120


def main(names: list[str]) -> int:
    """Run the named mutants, or all; 0 if every one did as expected."""
    mutants: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())[
        "mutant"
    ]
    healthy = {"name": "nothing-broken", "expect": "survives", "edit": []}
    chosen = [healthy] + [mutant for mutant in mutants if not names or mutant["name"] in names]
    wrong = 0
    for mutant in chosen:
        started = time.monotonic()
        outcome, why = _run(mutant)
        verdict = "as expected" if outcome == mutant["expect"] else f"EXPECTED: {mutant['expect']}"
        wrong += outcome != mutant["expect"]
        print(
            f"{mutant['name']:28} {outcome:9} {time.monotonic() - started:5.1f} s  {verdict}  {why}",
            flush=True,
        )
    print(f"{len(chosen) - wrong} passed, {wrong} failed")
    return min(wrong, 1)


def _run(mutant: dict[str, Any]) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="quadlog-mutant-") as directory:
        copy = Path(directory)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        for edit in mutant["edit"]:
            path = copy / edit["file"]
            text = path.read_text()
            if text.count(edit["old"]) != 1:
                sys.exit(
                    f"{mutant['name']}: {edit['file']} has the old text {text.count(edit['old'])} times, not once"
                )
            path.write_text(text.replace(edit["old"], edit["new"]))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
            *BEHAVIOUR,
        ]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"{mutant['name']}: the tests did not run:\n{done.stdout}{done.stderr}")
        errors = [
            line[1:].strip()
            for line in done.stdout.splitlines()
            if line.startswith("E ") and "AssertionError" in line
        ]
        return ("survives", "") if done.returncode == 0 else ("dies", errors[0][:110] if errors else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

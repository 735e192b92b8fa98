"""`make mutants`: break one rule at a time, and see the behaviour tests notice.

python -m tests.mutants.run [NAME ...]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COPIED = ("quadlog", "producers", "consumers", "schemas", "tests", "pyproject.toml")
SCENARIOS = (
    "-m",
    "pytest",
    "-x",
    "-q",
    "--no-header",
    "-p",
    "no:cacheprovider",
    "tests/unit/core/agreement/test_scenarios.py",
    "tests/unit/core/agreement/test_limbo.py",
    "tests/unit/core/agreement/test_read_index.py",
)
WEATHER_S = 60
"""Within which a mutant has to die."""
SURVIVES_S = 15
"""After which one that is expected to survive is believed."""
TIMEOUT = 240
MISSPELT = (
    "AttributeError",
    "NameError",
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
    "IndentationError",
)
"""Of a mutant that names what is not there: it says nothing of its rule."""


def main(names: list[str]) -> int:
    """Run the named mutants, or all, two at a time; 0 if every one did as expected."""
    mutants: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())[
        "mutant"
    ]
    healthy = {"name": "nothing-broken", "expect": "survives", "edit": []}
    chosen = [healthy] + [mutant for mutant in mutants if not names or mutant["name"] in names]
    wrong = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for mutant, (outcome, why, took) in zip(chosen, pool.map(_run, chosen), strict=True):
            verdict = "as expected" if outcome == mutant["expect"] else f"EXPECTED: {mutant['expect']}"
            wrong += outcome != mutant["expect"]
            print(f"{mutant['name']:28} {outcome:9} {took:5.1f} s  {verdict}  {why}", flush=True)
    print(f"{len(chosen) - wrong} passed, {wrong} failed")
    return min(wrong, 1)


def _run(mutant: dict[str, Any]) -> tuple[str, str, float]:
    """What became of it, by what words, and how long that took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="quadlog-mutant-") as directory:
        copy = Path(directory)
        _copy(copy)
        for edit in mutant["edit"]:
            path = copy / edit["file"]
            text = path.read_text()
            if text.count(edit["old"]) != 1:
                sys.exit(
                    f"{mutant['name']}: {edit['file']} has the old text {text.count(edit['old'])} times, not once"
                )
            path.write_text(text.replace(edit["old"], edit["new"]))
        seconds = WEATHER_S if mutant["expect"] == "dies" else SURVIVES_S
        weather = [
            "-m",
            "tests.support.agreement.sim",
            "--seconds",
            str(seconds),
            "--processes",
            "1",
            "--no-shrink",
        ]
        weather += ["--first", str(mutant.get("first", 0))]
        for command in (SCENARIOS, weather):
            done = subprocess.run(
                [sys.executable, *command],
                cwd=copy,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
            )
            if done.returncode != 0:
                said = f"{done.stdout}\n{done.stderr}"
                errors = re.findall(r"^(?:E +)?(?:quadlog[.\w]*\.)?(\w*Error.*)$", said, re.MULTILINE)
                if done.returncode != 1 or not errors or errors[0].startswith(MISSPELT):
                    sys.exit(f"{mutant['name']}: the tests did not run:\n{said}")
                seed = re.search(r"Weather\((\d+)", said)
                return (
                    "dies",
                    f"{seed[1] if seed else 'scenario'}: {errors[0][:90]}",
                    time.monotonic() - started,
                )
    return "survives", "", time.monotonic() - started


def _copy(copy: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

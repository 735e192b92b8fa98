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
WEATHER = ("-m", "tests.support.agreement.sim", "--processes", "1", "--no-shrink")
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
    _compile()
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
        edited = {edit["file"] for edit in mutant["edit"]}
        for name in COPIED:
            _link(ROOT / name, copy / name, edited)
        for edit in mutant["edit"]:
            path = copy / edit["file"]
            text = path.read_text()
            if text.count(edit["old"]) != 1:
                sys.exit(
                    f"{mutant['name']}: {edit['file']} has the old text {text.count(edit['old'])} times, not once"
                )
            path.write_text(text.replace(edit["old"], edit["new"]))
        seconds = WEATHER_S if mutant["expect"] == "dies" else SURVIVES_S
        weather = (*WEATHER, "--seconds", str(seconds), "--first", str(mutant.get("first", 0)))
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


def _compile() -> None:
    """Compile what the tests import, so that a copy has only its mutated modules to compile."""
    for command in ((*SCENARIOS, "--collect-only"), (*WEATHER, "--seconds", "0.1")):
        subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, check=True)


def _link(source: Path, target: Path, edited: set[str]) -> None:
    """Make `target` like `source`: a link, or a folder of links above what is edited, which is copied."""
    path = str(source.relative_to(ROOT))
    if path in edited:
        shutil.copy(source, target)
    elif not any(name.startswith(f"{path}/") for name in edited):
        target.symlink_to(source)
    else:
        target.mkdir()
        for child in source.iterdir():
            _link(child, target / child.name, edited)
        # What Python compiles anew replaces a link, and not the file in the source.
        compiled = target / "__pycache__"
        if compiled.is_symlink():
            compiled.unlink()
            compiled.mkdir()
            for child in (source / "__pycache__").iterdir():
                (compiled / child.name).symlink_to(child)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A worker that dies while it takes a seed up has the empty store or the whole seed."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from quadlog.snapshots.store_archive import FILES, ArchiveManifest
from tests.support.workers.ground import Ground, check, seed_of

if TYPE_CHECKING:
    from pathlib import Path


VICTIM = """
import os, sys
from pathlib import Path
from tests.support.workers.ground import Ground, built, seed_of

place, at = Path(sys.argv[1]), int(sys.argv[2])
label, files = built(place)
ground = Ground(place / "w")
calls = 0
def audit(event, arguments):
    # every change of a directory in the middle of it all
    global calls
    if event in {"os.rename", "os.link", "os.mkdir", "shutil.copyfile", "os.remove", "os.rmdir", "shutil.rmtree"}:
        calls += 1
        if calls == at:
            os.kill(os.getpid(), 9)
sys.addaudithook(audit)
ground.take(label, files)
ground.bed.on_seed(seed_of(label))
ground.end()
print("calls", calls)
"""


def test_killed_anywhere_it_has_the_empty_store_or_the_whole_seed(tmp_path: Path) -> None:
    """Then it hears of the seed again, and has it in the end."""
    seen, at = set[int](), 0
    while True:
        at += 1
        place = tmp_path / str(at)
        place.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", VICTIM, str(place), str(at)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        label = ArchiveManifest.load(place / "seed-built")
        assert label is not None
        ground = Ground(place / "w")
        quads = ground.store.applied.quads
        seen.add(quads)
        assert ground.store.recount() == (ground.store.applied.signature, quads)
        assert quads in {0, label.quads}
        if quads == 0:
            ground.bed.on_seed(seed_of(label))
            if not ground.left:
                ground.take(label, place / "seed-built" / FILES)
            ground = ground.end()
        check(ground, label)
        at += at // 8  # a death between two tables is like another
    assert at > 10
    assert 0 in seen

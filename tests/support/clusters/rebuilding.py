"""`quadlog dc rebuild`, as an operator calls it."""

from __future__ import annotations

from tests.support.labs import RunningLab, quadlog


def nodes_of(lab: RunningLab, dc: str) -> list[str]:
    """Masters first."""
    return [node for node in lab.states() if node.startswith(f"{dc}-")]


def rebuild(lab: RunningLab, dc: str, *more: str) -> tuple[int, str]:
    """`quadlog dc rebuild` by the settings of the first master there: its exit status, and what it says."""
    settings = lab.directory / "nodes" / f"{dc}-m1" / "master.toml"
    done = quadlog("dc", "rebuild", "--config", str(settings), *more)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout + done.stderr

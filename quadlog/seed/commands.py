"""`quadlog import` and `quadlog export`."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from quadlog.errors import UserError
from quadlog.progress import Phases
from quadlog.seed.build import build
from quadlog.seed.endpoints import TIMEOUT as PATIENCE
from quadlog.seed.endpoints import Endpoint, is_endpoint
from quadlog.seed.export import export
from quadlog.seed.ship import TIMEOUT, ImportTarget, refuse_if_begun, ship
from quadlog.seed.sources import files_of
from quadlog.snapshots.store_archive import ArchiveManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.seed.sources import ImportSource

_BUILT: Final = "built"
_OF: Final = "built-of.json"
"""Names in the work directory: a built store, and the sources that it was built of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import."""

    sources: Sequence[str]
    into: str
    keep_blank_nodes: bool
    work: Path | None


def run_import(wanted: ImportOptions, say: Callable[[str], None]) -> int:
    """Build a seed, ship it and wait; return 1 if a worker does not have it yet, else 0."""
    phases = Phases()
    with ExitStack() as opened:
        client = opened.enter_context(httpx.Client(timeout=TIMEOUT, trust_env=False))
        master = ImportTarget(wanted.into.rstrip("/"), client)
        refuse_if_begun(master)
        work = wanted.work or Path(
            opened.enter_context(tempfile.TemporaryDirectory(prefix="quadlog-import-"))
        )
        label = _built(wanted, work, phases)
        phases.write(f"{label.quads:,} quads, signature {label.signature}, {label.size:,} bytes")
        lacking = ship(master, label, work / _BUILT, wanted.sources, phases)
    for worker in lacking:
        say(f"not yet: {worker}; it gets the seed from another worker when it is back")
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in phases.seconds.items())
    say(f"the log begins with {label.quads} quads, signature {label.signature} ({took})")
    return 1 if lacking else 0


def _built(wanted: ImportOptions, work: Path, phases: Phases) -> ArchiveManifest:
    """Return the label of the seed that an earlier run built of the same sources, or build it.

    Raises:
        UserError: the built seed is of other sources.

    """
    directory, of = work / _BUILT, work / _OF
    asked = json.dumps({"sources": list(wanted.sources), "keep_blank_nodes": wanted.keep_blank_nodes})
    if known := ArchiveManifest.load(directory):
        with suppress(OSError):
            if of.read_text() != asked:
                raise UserError(
                    f"{work} keeps what was built of {of.read_text()}, and now it is {asked}: give another --work, or"
                    " remove that one"
                )
        phases.write(f"what was built in {work} before is taken, and no source is read")
        return known
    shutil.rmtree(directory, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    of.write_text(asked)
    try:
        with tempfile.TemporaryDirectory(prefix="fetched-", dir=work) as fetched:
            return build(
                _sources(wanted.sources, Path(fetched), phases),
                directory,
                phases,
                keep_blank_nodes=wanted.keep_blank_nodes,
            )
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _sources(names: Sequence[str], fetched: Path, phases: Phases) -> list[ImportSource]:
    found: list[ImportSource] = []
    for number, name in enumerate(names):
        if is_endpoint(name):
            found += _fetched(name, fetched / str(number), phases)
        else:
            found += files_of([name])
    if len({source.path.resolve() for source in found}) < len(found):
        raise UserError("a file is named twice")
    return found


def _fetched(name: str, directory: Path, phases: Phases) -> list[ImportSource]:
    directory.mkdir()
    came = 0

    def told(size: int) -> None:
        nonlocal came
        came += size

    with (
        phases.phase(f"fetching {name}", 1, lambda: (0, 0)),
        httpx.Client(timeout=PATIENCE, trust_env=False, follow_redirects=True) as client,
    ):
        found = list(Endpoint(name, directory, client, told).fetch())
    phases.write(f"{name} gave {came:,} bytes")
    return found


def run_export(master: str, target: Path | None) -> None:
    """Write all quads, and report their state."""
    phases = Phases()
    done = export(master.rstrip("/"), target, phases)
    phases.write(f"index {done.index}, chain {done.chain}…, {done.quads} quads, signature {done.signature}")

"""Build of a seed: all sources in one store, and its label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import Store

from quadlog.core.effects import signature
from quadlog.errors import SetupError, UserError
from quadlog.seed import lines
from quadlog.seed.counting import Counting
from quadlog.seed.quads import Tally, quads_of
from quadlog.seed.recount import recount
from quadlog.snapshots.store_archive import FILES, StreamDigest, label_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyoxigraph import Quad

    from quadlog.progress import Phases
    from quadlog.seed.sources import ImportSource
    from quadlog.snapshots.store_archive import ArchiveManifest


def build(
    sources: Sequence[ImportSource], directory: Path, phases: Phases, *, keep_blank_nodes: bool
) -> ArchiveManifest:
    """Load all sources into one store in a new directory, count it, and return its label.

    Labels of blank nodes are kept if there is only one source, or if `keep_blank_nodes` is set.

    Raises:
        UserError: a source cannot be read, or no source has a quad.
        SetupError: the store cannot be written.

    """
    files = directory / FILES
    files.mkdir(parents=True)
    try:
        tally = _load(sources, files, phases, keep_blank_nodes=keep_blank_nodes or len(sources) == 1)
        total, quads = _state(files, tally, phases)
        if not quads:
            raise UserError("the sources hold no quad: there is nothing to begin a log with")
        passed, size = StreamDigest(), sum(file.stat().st_size for file in files.iterdir())
        with phases.phase("digest of the files", size, lambda: (passed.size, 0)):
            label = label_of(files, signature=signature.render(total), quads=quads, passed=passed)
    except OSError as error:
        raise SetupError(
            f"the store cannot be built in {directory}: {error}; free space, or give another --work"
        ) from error
    label.save(directory)
    return label


def _load(sources: Sequence[ImportSource], files: Path, phases: Phases, *, keep_blank_nodes: bool) -> Tally:
    tally = Tally()
    of_lines = [source for source in sources if lines.is_of_lines(source)]
    others = [source for source in sources if source not in of_lines]

    def all_of_them() -> Iterator[Quad]:
        for source in others:
            yield from quads_of(source, tally, keep_blank_nodes=keep_blank_nodes)

    size = sum(source.size for source in sources)
    with Counting(of_lines) as counting:
        with phases.phase("reading and loading", size, lambda: (tally.read, tally.counted + tally.passed)):
            store = Store(str(files))
            for source in of_lines:
                lines.load(store, source, tally, counting.check)
            # This way keeps or renames blank nodes as required, and loads small files together.
            store.bulk_extend(tally.through(all_of_them()))
            for graph in sorted(tally.empty, key=str):
                if store.contains_named_graph(graph):
                    tally.empty.discard(graph)
                else:
                    store.add_graph(graph)
            store.flush()
        with phases.phase("compacting", 1, lambda: (0, 0)):
            # Done once here: otherwise every worker and every copy that it reads from does it, at the same time.
            store.optimize()
        with phases.phase("counting lines", 1, lambda: (0, 0)):
            counting.into(tally)
    return tally


def _state(files: Path, tally: Tally, phases: Phases) -> tuple[int, int]:
    """Return signature and number of quads: from the tally if no quad was repeated, else from the store."""
    stored = len(Store.read_only(str(files)))
    if stored == tally.counted:
        empty = map(signature.empty_graph_line, tally.empty)
        return signature.add(tally.total, empty), stored
    phases.write(f"{tally.counted - stored:,} quads came more than once: what is stored is counted")
    done = 0

    def counted(quads: int) -> None:
        nonlocal done
        done += quads

    with phases.phase("counting", stored, lambda: (done, done)):
        return recount(files, counted)

"""A trial: the process in which suspects are evaluated.  It may die, hang or exhaust its memory; the worker does not.

    python -m quadlog.worker.evaluate.trial

It reads entries from standard input, and writes their effects to standard output, both as records of the two
topics, each after its length in four bytes.  Before the entries it reads what `request` returns.  The store is a
copy of the worker's; it is changed, and useless afterwards.  A length of zero reports that it is open.  Between
the effects the trial writes which control is evaluated and, if it foretells, the verdict on each: a letter, and
text.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
import threading
from typing import IO, TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.records import LoggedEntry
from quadlog.damage import told_of
from quadlog.errors import StoreDamaged
from quadlog.quadstore.quadstore import Applied, QuadStore
from quadlog.worker.evaluate.evaluator import Evaluator
from quadlog.worker.evaluate.limits import EvaluationObserver
from quadlog.worker.evaluate.loader import Loader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.core.records import Effect, Fence
    from quadlog.worker.evaluate.controls import Verdict
    from quadlog.worker.evaluate.fetch import LoadLimits

_LENGTH: Final = struct.Struct(">I")
READY: Final = b""
UNDER_WAY: Final = b"c"
"""Prefix of the name of a control; no record of a topic begins like this."""
DAMAGED: Final = b"d"
"""Prefix of the error that shows that the copy of the store is damaged."""
VERDICT: Final = b"v"
"""Prefix of the verdict on a control, as JSON."""


def send(out: IO[bytes], values: Iterable[bytes]) -> None:
    """Write records, each after its length."""
    for value in values:
        out.write(_LENGTH.pack(len(value)))
        out.write(value)
    out.flush()


def receive(source: IO[bytes]) -> bytes | None:
    """Return the next record; None at the end.

    Raises:
        EOFError: the end is in the middle of a record.

    """
    head = source.read(_LENGTH.size)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head) if len(head) == _LENGTH.size else (-1,)
    value = source.read(length) if length >= 0 else b""
    if len(value) != length:
        raise EOFError("the other side ended in the middle of a record")
    return value


def request(store: Path, fence: Fence, load: LoadLimits, *, foretells: bool = False) -> bytes:
    """Return the first record for a trial on a store, run for the worker with this fence.

    With `foretells`, all controls are evaluated, and their verdicts reported.
    """
    return pickle.dumps((store, fence, load, foretells))


class _TrialReports(EvaluationObserver):
    """Observer that reports controls to the worker, which knows itself when an evaluation begins and ends."""

    def control(self, name: str) -> None:
        """Report the current control; the time of all controls begins with the first one."""
        send(sys.stdout.buffer, [UNDER_WAY + name.encode()])


def _foresee(verdict: Verdict) -> None:
    send(sys.stdout.buffer, [VERDICT + json.dumps(verdict.answer()).encode()])


def main() -> None:
    """Evaluate the entries from standard input, until its end."""
    asked = receive(sys.stdin.buffer)
    assert asked is not None, "a trial begins with its request"
    path, fence, load, foretells = pickle.loads(asked)  # noqa: S301 - of our own worker
    try:
        with told_of(path):
            _evaluate(QuadStore.open(path), fence, load, foretells=foretells)
    except StoreDamaged as error:
        send(sys.stdout.buffer, [DAMAGED + str(error).encode()])


def _evaluate(store: QuadStore, fence: Fence, load: LoadLimits, *, foretells: bool) -> None:
    send(sys.stdout.buffer, [READY])
    chunks, loaded = codec.ChunkJoiner(), threading.Event()

    def say(effect: Effect, entry: LoggedEntry) -> None:
        del entry
        _apply(effect, evaluator, store)
        send(sys.stdout.buffer, codec.encode_effect(effect))

    loader, foresee = Loader(load, loaded.set), _foresee if foretells else None
    evaluator = Evaluator(store, fence, say, loader, _TrialReports(), foresee=foresee)
    while (value := receive(sys.stdin.buffer)) is not None:
        entry = chunks.join(value)
        while isinstance(entry, LoggedEntry) and evaluator.index < entry.index:
            loaded.clear()
            evaluator.evaluate([entry])
            if evaluator.index < entry.index:
                loaded.wait()


def _apply(effect: Effect, evaluator: Evaluator, store: QuadStore) -> None:
    """Apply an effect as if it had been read back, but not to the store's controls.

    The evaluator has the controls, and nobody reads them from this store.
    """
    decided = evaluator.decided(effect)
    assert decided is not None, f"effect {effect.index} is the evaluator's own"
    store.apply([decided.due(effect)], Applied.after(effect), anticipated=decided.records)
    evaluator.applied(effect.index)


if __name__ == "__main__":
    main()

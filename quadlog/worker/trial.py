"""A trial: the process in which suspects are evaluated.  It may die, hang or fill its memory: nobody else does.

    python -m quadlog.worker.trial STORE TERM ATTEMPT WORKER PARENT LOAD

STORE is a copy of the worker's store; it is changed, and of no use afterwards.  PARENT is the worker's process: the
trial ends with it.  LOAD has the limits of what may be loaded.  On standard input come
entries, on standard output go their effects, in the records of the two topics, each behind its length in
four bytes.  A length of zero says that the store is open.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.model import Fence, LoggedEntry
from quadlog.quadstore import Applied, QuadStore
from quadlog.worker.evaluator import Evaluator
from quadlog.worker.fetch import LoadLimits
from quadlog.worker.limits import LOOK_S
from quadlog.worker.loader import Loader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quadlog.core.model import Effect

_LENGTH: Final = struct.Struct(">I")
READY: Final = b""


def send(out: IO[bytes], values: Iterable[bytes]) -> None:
    """Write records, each behind its length."""
    for value in values:
        out.write(_LENGTH.pack(len(value)))
        out.write(value)
    out.flush()


def receive(source: IO[bytes]) -> bytes | None:
    """The next record; None at the end.

    Raises:
        EOFError: the end is in the middle of one.

    """
    head = source.read(_LENGTH.size)
    if not head:
        return None
    (length,) = _LENGTH.unpack(head) if len(head) == _LENGTH.size else (-1,)
    value = source.read(length) if length >= 0 else b""
    if len(value) != length:
        raise EOFError("the other side ended in the middle of a record")
    return value


def main(arguments: Sequence[str]) -> None:
    """Evaluate what comes, until nothing more does."""
    path, term, attempt, worker, parent, load = arguments
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    store = QuadStore.open(Path(path))
    fence = Fence(term=bytes.fromhex(term), attempt=int(attempt), worker=worker)
    send(sys.stdout.buffer, [READY])
    chunks = codec.Chunks()

    def say(effect: Effect, entry: LoggedEntry) -> None:
        del entry
        _apply(effect, evaluator, store)
        send(sys.stdout.buffer, codec.encode_effect(effect))

    loaded = threading.Event()
    evaluator = Evaluator(store, fence, say, Loader(LoadLimits.decode(load), loaded.set))
    while (value := receive(sys.stdin.buffer)) is not None:
        entry = chunks.join(value)
        if isinstance(entry, LoggedEntry):
            evaluator.evaluate([entry])
            while evaluator.index < entry.index:
                loaded.wait()
                loaded.clear()
                evaluator.evaluate([entry])


def _end_with(parent: int) -> None:
    """Whoever judges may be killed: nobody would end an endless evaluation then."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _apply(effect: Effect, evaluator: Evaluator, store: QuadStore) -> None:
    """As if it had been heard back."""
    decided = evaluator.decided(effect)
    assert decided is not None, f"effect {effect.index} is the evaluator's own"
    store.apply([decided.rest], Applied.after(effect), anticipated=decided.records)
    evaluator.applied(effect.index)


if __name__ == "__main__":
    main(sys.argv[1:])

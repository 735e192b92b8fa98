"""A trial: the process in which suspects are evaluated.  It may die, hang or fill its memory: nobody else does.

    python -m quadlog.worker.evaluate.trial ASKED

The store that is named in ASKED is a copy of the worker's; it is changed, and of no use afterwards.  The trial ends
with the worker.  On standard input come entries, on standard output go their effects, in the records of the two
topics, each behind its length in four bytes.  A length of zero says that the store is open.  Between them stands
which control is under way, and in a trial that foretells what came out for each: a letter, and text.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from quadlog import codec
from quadlog.core.records import Fence, LoggedEntry
from quadlog.damage import told_of
from quadlog.errors import StoreDamaged
from quadlog.quadstore.quadstore import Applied, QuadStore
from quadlog.worker.evaluate.evaluator import Evaluator
from quadlog.worker.evaluate.fetch import LoadLimits
from quadlog.worker.evaluate.limits import LOOK_S
from quadlog.worker.evaluate.loader import Loader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.records import Effect
    from quadlog.worker.evaluate.controls import Verdict

_LENGTH: Final = struct.Struct(">I")
READY: Final = b""
UNDER_WAY: Final = b"c"
"""The name of a control follows; no record begins like this."""
DAMAGED: Final = b"d"
"""Its copy of the store is damaged: what the store says of that follows."""
VERDICT: Final = b"v"
"""JSON follows: what came out for a control."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a trial has to know."""

    store: str
    fence: Fence
    """Of the worker that it is held for."""
    load: LoadLimits
    parent: int
    """Process id of that worker."""
    foretells: bool = False
    """Whether all controls are evaluated, and told of."""

    def encode(self) -> str:
        """As an argument of the command."""
        return json.dumps(asdict(self) | {"fence": asdict(self.fence) | {"term": self.fence.term.hex()}})

    @classmethod
    def decode(cls, text: str) -> Self:
        """The inverse of `encode`."""
        values = json.loads(text)
        fence, load = values["fence"], values["load"]
        fence["term"], load["beginnings"] = bytes.fromhex(fence["term"]), tuple(load["beginnings"])
        load["endpoints"] = tuple(load["endpoints"])
        return cls(
            store=values["store"],
            fence=Fence(**fence),
            load=LoadLimits(**load),
            parent=values["parent"],
            foretells=values["foretells"],
        )


class _Told:
    """What the worker has to know while an evaluation lasts; when it begins and ends it knows."""

    def begin(self, index: int) -> None:
        """The worker handed it over."""

    def control(self, name: str) -> None:
        """Their time begins, or goes on with the next one."""
        send(sys.stdout.buffer, [UNDER_WAY + name.encode()])

    def end(self) -> None:
        """Its effect follows."""


def _foresee(verdict: Verdict) -> None:
    send(sys.stdout.buffer, [VERDICT + json.dumps(verdict.answer()).encode()])


def main(asked: Asked) -> None:
    """Evaluate what comes, until nothing more does."""
    threading.Thread(target=_end_with, args=(asked.parent,), daemon=True).start()
    path = Path(asked.store)
    try:
        with told_of(path):
            _evaluate(asked, QuadStore.open(path))
    except StoreDamaged as error:
        send(sys.stdout.buffer, [DAMAGED + str(error).encode()])


def _evaluate(asked: Asked, store: QuadStore) -> None:
    send(sys.stdout.buffer, [READY])
    chunks, loaded = codec.Chunks(), threading.Event()

    def say(effect: Effect, entry: LoggedEntry) -> None:
        del entry
        _apply(effect, evaluator, store)
        send(sys.stdout.buffer, codec.encode_effect(effect))

    loader, foresee = Loader(asked.load, loaded.set), _foresee if asked.foretells else None
    evaluator = Evaluator(store, asked.fence, say, loader, _Told(), foresee=foresee)
    while (value := receive(sys.stdin.buffer)) is not None:
        entry = chunks.join(value)
        while isinstance(entry, LoggedEntry) and evaluator.index < entry.index:
            loaded.clear()
            evaluator.evaluate([entry])
            if evaluator.index < entry.index:
                loaded.wait()


def _end_with(parent: int) -> None:
    """Whoever judges may be killed: nobody would end an endless evaluation then."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _apply(effect: Effect, evaluator: Evaluator, store: QuadStore) -> None:
    """As if it had been heard back; its controls the evaluator has, and nobody will ask this store for them."""
    decided = evaluator.decided(effect)
    assert decided is not None, f"effect {effect.index} is the evaluator's own"
    store.apply([decided.due(effect)], Applied.after(effect), anticipated=decided.records)
    evaluator.applied(effect.index)


if __name__ == "__main__":
    main(Asked.decode(sys.argv[1]))

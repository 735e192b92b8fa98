"""`GET /cluster/log`: entries of the log, for a master whose topics do not contain them any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anyio import to_thread
from starlette.responses import Response

from quadlog.errors import Unavailable, UserError
from quadlog.masterstore.rows import pack_row

if TYPE_CHECKING:
    from starlette.requests import Request

    from quadlog.masterstore.store import MasterStore

MEDIA_TYPE: Final = "application/x-quadlog-rows"
PAGE: Final = 10_000
"""Maximum number of entries in one answer: 1 MB, and a tenth of a second of one thread."""


class LogDoor:
    """Serves the log.  Used on the server's loop; reads the store in other threads."""

    def __init__(self, store: MasterStore) -> None:
        """`store`: the store of this master."""
        self._store = store

    async def answer(self, request: Request) -> Response:
        """Return the rows of the entries after `after`, up to `until` or the end of a page.

        `chain` is the chain hash of the entry at `until`, which is never cut: a master that has this entry
        has the same entries before it as every other master.

        Raises:
            UserError: a parameter is missing or malformed.
            Unavailable: this master does not have the entry at `until`.

        """
        after, until, chain = (request.query_params.get(name, "") for name in ("after", "until", "chain"))
        if not (after.isdecimal() and until.isdecimal() and chain):
            raise UserError(
                "entries of the log are asked for by 'after', 'until' and 'chain' of the last one"
            )
        return Response(
            await to_thread.run_sync(self._rows, int(after), int(until), chain), media_type=MEDIA_TYPE
        )

    def _rows(self, after: int, until: int, chain: str) -> bytes:
        entry = self._store.entry(until)
        if entry is None or entry[0].hex() != chain:
            raise Unavailable(
                f"the log here has no entry {until} with the chain hash {chain[:16]}", retry_after=5
            )
        return b"".join(map(pack_row, self._store.rows(after, min(until, after + PAGE))))

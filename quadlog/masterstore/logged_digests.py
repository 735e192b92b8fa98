"""Digests of synchronised transactions, by id: of the local log, and of a branch.  Each is looked up in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.masterstore.rows import logged_at, logged_id

if TYPE_CHECKING:
    from quadlog.masterstore.staged_branch import StagedBranch
    from quadlog.masterstore.staged_log import StagedLog


class LocalDigests:
    """Digests of the local log."""

    def __init__(self, log: StagedLog) -> None:
        """`log`: the local log, of which a part may be stored there."""
        self._log: Final = log

    def __contains__(self, transaction_id: object) -> bool:
        """Return whether a transaction of this id is synchronised."""
        return isinstance(transaction_id, bytes) and self._log.logged(transaction_id) is not None

    def get(self, transaction_id: bytes) -> bytes | None:
        """Return the digest of a synchronised transaction; None if there is none, or its entry is not stored."""
        logged = self._log.logged(transaction_id)
        entry = None if logged is None else self._log.entry(logged[0])
        return None if entry is None else entry[1].digest


class BranchDigests:
    """Digests of a branch, up to an index.  After an adoption they are those of the local log."""

    def __init__(self, branch: StagedBranch, log: StagedLog, index: int) -> None:
        self._branch, self._log, self._index = branch, log, index

    def __contains__(self, transaction_id: object) -> bool:
        """Return whether a transaction of this id is synchronised there."""
        return isinstance(transaction_id, bytes) and self._place(transaction_id) is not None

    def get(self, transaction_id: bytes) -> bytes | None:
        """Return the digest of a transaction that is synchronised there; None if there is none."""
        place = self._place(transaction_id)
        if place is None:
            return None
        family, index = place
        entry = self._log.entry(index) if family is None else logged_at(self._log.families[family], index)
        return None if entry is None else entry[1].digest

    def _place(self, transaction_id: bytes) -> tuple[str | None, int] | None:
        """Return the family and the index of the entry; without a family it is in the local log."""
        if not self._branch.is_live:
            own = self._log.logged(transaction_id)
            return (None, own[0]) if own is not None and own[0] <= self._index else None
        theirs = self._branch.reading.ids.get(transaction_id)
        if theirs is not None and theirs <= self._index:
            return "beside", theirs
        own = logged_id(self._log.families["ids"], transaction_id)
        up_to_fork = min(self._index, self._branch.fork.index)
        return ("log", own[0]) if own is not None and own[0] <= up_to_fork else None

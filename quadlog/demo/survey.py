"""Collection of the findings: queries masters and workers, and compares every dump with the file."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

from quadlog.demo.load import transactions
from quadlog.demo.proof import canonical_dump, canonical_file, difference, recount
from quadlog.demo.questions import QUESTIONS, ask_file, ask_worker
from quadlog.demo.report import Findings, WorkerFinding
from quadlog.demo.watch import agreed_index, worker_status
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from quadlog.demo.cluster import DemoCluster, DemoDataCentre, DemoNode
    from quadlog.demo.split import DemoUpdate


async def survey(
    http: httpx.AsyncClient, cluster: DemoCluster, turtle: bytes, updates: Sequence[DemoUpdate]
) -> Findings:
    """Query all masters and workers, and compare all dumps.  The cluster must be idle."""
    comparison = _Comparison(await asyncio.to_thread(canonical_file, turtle))
    return Findings(
        workers=tuple(
            [
                await _survey_worker(http, comparison, dc, worker)
                for dc in cluster.dcs
                for worker in dc.workers
            ]
        ),
        file_answers=tuple(await asyncio.to_thread(ask_file, turtle)),
        transactions={master.id: await transactions(http, master, updates) for master in cluster.masters},
    )


async def _survey_worker(
    http: httpx.AsyncClient, comparison: _Comparison, dc: DemoDataCentre, worker: DemoNode
) -> WorkerFinding:
    agreed, status = await agreed_index(http, dc.master), await worker_status(http, worker)
    if agreed is None or status is None:
        raise StateError(
            f"{dc.master.id if agreed is None else worker.id} does not answer any more: see its log"
        )
    answers = tuple([await ask_worker(http, worker, question) for question in QUESTIONS])
    dump = (await http.get(f"{worker.url}/statements")).raise_for_status().content
    return WorkerFinding(
        dc=dc.name,
        id=worker.id,
        agreed=agreed,
        status=status,
        counted=await asyncio.to_thread(recount, dump),
        deviation=await asyncio.to_thread(comparison.deviation, dump),
        answers=answers,
    )


class _Comparison:
    """Comparison of dumps with the file; dumps with the same lines are compared once."""

    def __init__(self, file: frozenset[str]) -> None:
        """`file`: canonical lines of the file."""
        self._file = file
        self._known: dict[bytes, str | None] = {}

    def deviation(self, dump: bytes) -> str | None:
        """Return the difference between a dump and the file; None if the two are isomorphic."""
        content = sha256(b"\n".join(sorted(dump.splitlines()))).digest()
        if content not in self._known:
            self._known[content] = difference(canonical_dump(dump), self._file)
        return self._known[content]

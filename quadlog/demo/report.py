"""Findings of the demo, their errors, and the tables that show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from quadlog.demo.questions import QUESTIONS, Rows, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.demo.proof import Recount
    from quadlog.demo.watch import WorkerStatus

VERDICT = "all equal, and each isomorphic to the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFinding:
    """Status of a worker, and the results of the checks of its dump and answers."""

    dc: str
    id: str
    agreed: int
    """Index of the last entry that the master of its data centre has agreed."""
    status: WorkerStatus
    counted: Recount
    deviation: str | None
    """Difference between its quads and the file; None if the two are isomorphic."""
    answers: tuple[Rows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All findings of one run."""

    workers: tuple[WorkerFinding, ...]
    file_answers: tuple[Rows, ...]
    transactions: Mapping[str, Mapping[str, int | None]]
    """Index of each update in the log, by master and key of the update; None if the update is not applied."""


def wrong(findings: Findings) -> list[str]:
    """Return a description of each error in the findings; empty if there is none."""
    return [*_wrong_transactions(findings), *_wrong_workers(findings), *_wrong_answers(findings)]


def _wrong_transactions(findings: Findings) -> list[str]:
    found: list[str] = []
    first, *others = findings.transactions.items()
    for master, indexes in findings.transactions.items():
        lost = [key for key, index in indexes.items() if index is None]
        if lost:
            found.append(f"{master} has not applied {len(lost)} acknowledged updates, such as {lost[0]}")
        if len(set(indexes.values())) < len(indexes) and not lost:
            found.append(f"{master} has two updates at one index")
    found += [f"{name} has updates at other indexes than {first[0]}" for name, at in others if at != first[1]]
    return found


def _wrong_workers(findings: Findings) -> list[str]:
    found: list[str] = []
    reference = findings.workers[0]
    for worker in findings.workers:
        status, counted = worker.status, worker.counted
        if status.applied != worker.agreed:
            found.append(f"{worker.id} is at index {status.applied}, its master at {worker.agreed}")
        if (counted.quads, counted.signature) != (status.quads, status.signature):
            found.append(
                f"{worker.id} says {status.quads} quads with signature {status.signature[:16]}, "
                f"its dump has {counted.quads} with {counted.signature[:16]}"
            )
        if worker.agreed != reference.agreed:
            found.append(f"{worker.dc} agreed on index {worker.agreed}, {reference.dc} on {reference.agreed}")
        if status.signature != reference.status.signature:
            found.append(f"{worker.id} and {reference.id} have different signatures")
        if worker.deviation is not None:
            found.append(f"{worker.id} is not isomorphic to the file: {worker.deviation}")
    return found


def _wrong_answers(findings: Findings) -> list[str]:
    return [
        f"{worker.id} answers '{question.text}' with {shown(answer)}, the file with {shown(right)}"
        for worker in findings.workers
        for question, answer, right in zip(QUESTIONS, worker.answers, findings.file_answers, strict=True)
        if answer != right
    ]


def question_table(findings: Findings) -> Table:
    """Return a table of the questions, the answers of the file, and the number of workers with the same answer."""
    table = Table("question", "answer", "given by", title="Asked of every worker and of the file itself")
    count = len(findings.workers)
    for number, (question, right) in enumerate(zip(QUESTIONS, findings.file_answers, strict=True)):
        same = sum(worker.answers[number] == right for worker in findings.workers)
        table.add_row(question.text, shown(right), _coloured(f"{same} of {count}", good=same == count))
    return table


def worker_table(findings: Findings) -> Table:
    """Return a table of all data centres and workers."""
    columns = ("DC", "agreed index", "worker", "applied index", "quads", "signature", "recount", "isomorphic")
    table = Table(*columns)
    last = ""
    for worker in findings.workers:
        begins = worker.dc != last
        last = worker.dc
        status, counted = worker.status, worker.counted
        same = (counted.quads, counted.signature) == (status.quads, status.signature)
        table.add_row(
            *((worker.dc, str(worker.agreed)) if begins else ("", "")),
            worker.id,
            _coloured(str(status.applied), good=status.applied == worker.agreed),
            f"{status.quads:,}",
            status.signature[:16],
            _coloured("same" if same else counted.signature[:16], good=same),
            _coloured("yes" if worker.deviation is None else "no", good=worker.deviation is None),
        )
    return table


def _coloured(text: str, *, good: bool) -> str:
    return f"[{'green' if good else 'bold red'}]{text}[/]"

"""`/cluster/splits` at one master: the list, and each report in the format that the client prefers."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from quadlog.errors import QuadlogError
from quadlog.master.split_reports import splits_handler
from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_request import ReportOutcome
from quadlog.master.split_reports.split_reporter import SplitReporter
from quadlog.master.split_reports.splits_handler import SplitsHandler
from quadlog.web.answers import handle_error
from quadlog.web.http_rules import HttpRules

if TYPE_CHECKING:
    from pathlib import Path

NAME = "7-5f0c1b9a77d2"
TEXTS = {"json": '{"é": 1}\n', "html": "<p>é" + "x" * 200_000, "ttl": "<urn:a> <urn:b> 'é' ."}
SUMMARY = {"name": NAME, "made_at": "2026-01-01", "plan": "p", "classes": {"commutes": 2}, "branches": []}
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def files(tmp_path: Path) -> ReportFiles:
    files = ReportFiles(tmp_path)
    directory = files.path / NAME
    directory.mkdir(parents=True)
    for suffix, text in TEXTS.items():
        (directory / f"report.{suffix}").write_text(text, "utf-8")
    (directory / "summary.json").write_text(json.dumps(SUMMARY))
    return files


def ask(files: ReportFiles, path: str, accept: str | None = None, method: str = "GET") -> httpx.Response:
    reporter = SplitReporter("dc1", {"m1": "dc1"}, files, most=20, run=lambda _: ReportOutcome())
    handler = SplitsHandler(reporter, "m1", "dc1")
    app = HttpRules(
        Starlette(
            routes=[
                Route("/cluster/splits", handler.listed, methods=["GET"]),
                Route("/cluster/splits/{name}", handler.one, methods=["GET"]),
                Route("/cluster/splits/{name}", handler.drop, methods=["DELETE"]),
            ],
            exception_handlers={QuadlogError: handle_error},
        )
    )

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://m1") as client:
            headers = {} if accept is None else {"Accept": accept}
            return await client.request(method, path, headers=headers)

    return asyncio.run(asked())


def test_the_list_has_the_totals_and_links(files: ReportFiles) -> None:
    answer = ask(files, "/cluster/splits")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    said = answer.json()
    url = f"/cluster/splits/{NAME}"
    types = ("application/json", "text/html", "text/turtle", "application/rdf-patch")
    links = dict.fromkeys(types, url)
    assert said == {
        "node": "m1",
        "dc": "dc1",
        "is_reporter": False,
        "reports": [{**SUMMARY, "links": links}],
        "making": [],
        "waiting": [],
        "failed": [],
    }


@pytest.mark.parametrize(
    ("accept", "suffix", "content_type"),
    [
        (None, "json", "application/json"),
        ("*/*", "json", "application/json"),
        ("application/json", "json", "application/json"),
        ("text/html", "html", "text/html; charset=utf-8"),
        (BROWSER, "html", "text/html; charset=utf-8"),
        ("text/turtle", "ttl", "text/turtle; charset=utf-8"),
        ("text/turtle;q=0.5, text/html;q=0.4", "ttl", "text/turtle; charset=utf-8"),
        ("image/png", "json", "application/json"),
    ],
)
def test_a_report_comes_in_the_format_that_is_preferred(
    files: ReportFiles, accept: str | None, suffix: str, content_type: str
) -> None:
    answer = ask(files, f"/cluster/splits/{NAME}", accept)
    assert answer.status_code == 200
    assert answer.content.decode() == TEXTS[suffix]
    assert answer.headers["content-type"] == content_type
    assert answer.headers["content-length"] == str(len(TEXTS[suffix].encode()))
    assert answer.headers["vary"] == "Accept"
    head = ask(files, f"/cluster/splits/{NAME}", accept, "HEAD")
    assert (head.status_code, head.content) == (200, b"")


def test_a_report_is_sent_in_pieces(files: ReportFiles) -> None:
    path = files.file(NAME, "html")
    pieces = [*splits_handler._pieces(path)]
    assert len(pieces) == 4
    assert b"".join(pieces) == path.read_bytes()


@pytest.mark.parametrize(
    "name", ["8-5f0c1b9a77d2", "x", "%2E%2E", "..%2F..", ".state.json", f"..%2Fsplits%2F{NAME}", f"{NAME}%00"]
)
def test_no_such_report(files: ReportFiles, name: str) -> None:
    files.save_state({})
    answer = ask(files, f"/cluster/splits/{name}")
    assert answer.status_code == 404
    if "%2F" not in name and name != "%2E%2E":  # else the path has no route
        assert answer.json()["error"] == "NoSuchReport"
        assert "GET /cluster/splits" in answer.json()["message"]


def test_a_file_that_is_missing_is_404(files: ReportFiles) -> None:
    files.file(NAME, "ttl").unlink()
    assert ask(files, f"/cluster/splits/{NAME}", "text/turtle").status_code == 404


def test_a_parameter_is_refused(files: ReportFiles) -> None:
    for path in ("/cluster/splits", f"/cluster/splits/{NAME}"):
        assert ask(files, f"{path}?limit=1").status_code == 400


def test_the_net_change_is_there_if_effects_were(files: ReportFiles) -> None:
    lacking = ask(files, f"/cluster/splits/{NAME}", "application/rdf-patch")
    assert (lacking.status_code, lacking.json()["error"]) == (404, "NoSuchReport")
    assert "effects of a branch were missing" in lacking.json()["message"]
    (files.path / NAME / "report.rdfp").write_text("TX .\nTC .\n")
    answer = ask(files, f"/cluster/splits/{NAME}", "application/rdf-patch")
    assert (answer.status_code, answer.text) == (200, "TX .\nTC .\n")


def test_what_is_dropped_is_gone(files: ReportFiles) -> None:
    assert ask(files, "/cluster/splits/8-00", method="DELETE").status_code == 404
    assert ask(files, "/cluster/splits/..", method="DELETE").status_code == 404
    answer = ask(files, f"/cluster/splits/{NAME}", method="DELETE")
    assert (answer.status_code, answer.content) == (204, b"")
    assert not (files.path / NAME).exists()
    assert ask(files, "/cluster/splits").json()["reports"] == []
    assert ask(files, f"/cluster/splits/{NAME}", method="DELETE").status_code == 404

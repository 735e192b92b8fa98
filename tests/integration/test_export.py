"""An export is one state, whole, or an error that leaves nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from quadlog.compare.dumps import Claim
from quadlog.core.effects import signature
from quadlog.errors import QuadlogError, StateError, Unavailable
from quadlog.progress import Phases
from quadlog.seed.export import export
from tests.support.web import Web, running_web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

LINES = [f'<urn:s{n}> <urn:p> "é {n}" .' for n in range(500)] + ["# empty graph <urn:g>"]
BODY = "".join(f"{line}\n" for line in LINES).encode()
SIGNATURE = signature.render(signature.add(signature.EMPTY, LINES))


@pytest.fixture
def web() -> Iterator[Web]:
    with running_web() as running:
        running.documents["/cluster/status"] = (
            "application/json",
            json.dumps({"repository": "main"}).encode(),
        )
        yield running


def gives(web: Web, body: bytes, *, announced: int | None = None, **headers: str) -> None:
    """What the master's door answers."""
    said = {"Quadlog-Index": "7:abc", "Quadlog-Signature": SIGNATURE, "Quadlog-Quads": "500"}
    said |= {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        for name, value in said.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(announced or len(body)))
        request.end_headers()
        request.wfile.write(body)
        request.close_connection = True

    web.special["/repositories/main/statements"] = answer


def test_it_is_written_and_counted(tmp_path: Path, web: Web) -> None:
    gives(web, BODY)
    done = export(web.url, tmp_path / "all.nq", Phases())
    assert done == Claim(index=7, chain="abc", quads=500, signature=SIGNATURE)
    assert (tmp_path / "all.nq").read_bytes() == BODY


def test_to_standard_output(web: Web, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    gives(web, BODY)
    export(web.url, None, Phases())
    assert capfdbinary.readouterr().out == BODY


WRONG: list[tuple[bytes, int | None, dict[str, str], type[QuadlogError]]] = [
    (BODY[:5000], len(BODY), {}, Unavailable),  # it broke off
    (BODY[:5000], None, {}, StateError),  # or ended too soon, in the middle of a line
    (BODY[: BODY.index(b"# empty")], None, {}, StateError),
    (BODY, None, {"Quadlog_Signature": "0" * 64}, StateError),
    (BODY, None, {"Quadlog_Quads": "501"}, StateError),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_not_right_leaves_nothing(tmp_path: Path, web: Web, number: int) -> None:
    body, announced, headers, error = WRONG[number]
    (tmp_path / "all.nq").write_text("an earlier one")
    gives(web, body, announced=announced, **headers)
    with pytest.raises(error, match="kept of them"):
        export(web.url, tmp_path / "all.nq", Phases())
    assert [path.name for path in tmp_path.iterdir()] == ["all.nq"]
    assert (tmp_path / "all.nq").read_text() == "an earlier one"

"""Dumps that are compared line by line, and whose quads are traced to the entry that touched them last."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlog.compare import dumps
from quadlog.compare.diff import DiffOptions, diff
from quadlog.compare.history import touches
from quadlog.compare.runs import Runs, differences
from quadlog.compare.verify import verify
from quadlog.core.effects import signature
from quadlog.errors import StateError, Unavailable, UserError
from tests.support.agreement.topics import effects_topic, fence
from tests.support.masters.effects import effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

lines = st.sets(st.binary(max_size=6).filter(lambda line: b"\n" not in line), max_size=40)


@given(lines, lines)
def test_differences_are_those_of_the_sets(one: set[bytes], other: set[bytes]) -> None:
    found = list(differences(sorted(one), sorted(other)))
    assert {line for side, line in found if side == 0} == one - other
    assert {line for side, line in found if side == 1} == other - one
    assert len(found) == len(one ^ other)


@given(st.permutations([b"%d\t%s" % (n % 7, b"x" * n) for n in range(40)] + [b"", b"\t", b" "]))
def test_runs_give_all_lines_in_order(tmp_path_factory: pytest.TempPathFactory, given: list[bytes]) -> None:
    directory = tmp_path_factory.mktemp("runs")
    runs = Runs(directory, "r", run=60, files=3)
    runs.add(iter(given))
    assert list(runs) == list(runs) == sorted(given)
    assert len(list(directory.iterdir())) <= 3


def test_the_last_effect_that_counts_is_named() -> None:
    records = effects_topic(
        fence(1),
        effect(1, inserted=("a", "b")),
        effect(2, deleted=("a",), emptied=("<urn:g>",)),
        fence(2),
        effect(3, attempt=1, inserted=("b",)),  # void: an old evaluator woke up
        effect(3, attempt=2, inserted=("c",), dropped=("<urn:h>",)),
    )
    found = touches(iter(records), {"a", "b", "# empty graph <urn:g>", "# empty graph <urn:h>", "d"})
    assert {line: (touch.index, touch.did) for line, touch in found.items()} == {
        "a": (2, "deleted"),
        "b": (1, "inserted"),
        "# empty graph <urn:g>": (2, "emptied"),
        "# empty graph <urn:h>": (3, "filled or dropped"),
    }


@contextmanager
def worker(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A door that answers so; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/status":
                self.send_error(404)
            else:
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def dump(
    *quads: str, index: int = 7, chain: str = "c" * 16, claims: str | None = None, missing: int = 0
) -> Callable[[BaseHTTPRequestHandler], None]:
    """What a worker at that index answers; `claims` another signature; breaks off before its last bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = "".join(f"{quad}\n" for quad in quads).encode()
        handler.send_response(200)
        handler.send_header("Quadlog-Index", f"{index}:{chain}")
        handler.send_header("Quadlog-Signature", claims or signature.render(signature.add(0, quads)))
        handler.send_header("Quadlog-Quads", str(sum(not quad.startswith("#") for quad in quads)))
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) - missing])

    return answer


A, B = "<urn:a> <urn:p> <urn:o> .", '<urn:b> <urn:p> "é\\n" .'


def compared(one: str, other: str, shown: int = 10, wait_s: float = 0.2) -> tuple[int, list[str]]:
    said: list[str] = []
    question = DiffOptions(one=one, other=other, master=None, effects=None, wait_s=wait_s, shown=shown)
    return diff(question, said.append), said


def test_what_only_one_has_is_named() -> None:
    with worker(dump(A, B, "# empty graph <urn:g>")) as one, worker(dump(B)) as other:
        total, said = compared(one, other)
        assert total == 2
        assert said[0].startswith(f"only at {one}: # empty graph <urn:g>\n")
        assert said[1].startswith(f"only at {one}: {A}\n")
        assert said[-1].endswith("at index 7: 2 quads differ")
        total, said = compared(other, one, shown=1)
        assert total == 2
        assert "and 1 more" in said
        assert compared(one, one) == (0, [f"{one} and {one} at index 7: no quads differ"])


def test_other_states_are_not_compared() -> None:
    with worker(dump(A)) as one, worker(dump(A, index=8)) as later, worker(dump(A, chain="d" * 16)) as fork:
        with pytest.raises(Unavailable, match=r"is at index 7 and .* at 8"):
            compared(one, later)
        with pytest.raises(StateError, match="different entries"):
            compared(one, fork)


def applying(*indices: int) -> Callable[[BaseHTTPRequestHandler], None]:
    """Each answer is of the next of these states, and of the last one from then on."""
    left = deque(indices)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        dump(A, index=left.popleft() if len(left) > 1 else left[0])(handler)

    return answer


def test_a_worker_that_is_behind_is_asked_again_until_it_is_where_the_other_one_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dumps, "KEPT_S", inf)  # both asked anew would be at other states
    with worker(applying(10, 20, 21, 40)) as one, worker(applying(21, 30)) as other:
        assert compared(one, other, wait_s=60) == (0, [f"{one} and {other} at index 21: no quads differ"])


def test_a_dump_that_breaks_off_is_not_compared() -> None:
    with worker(dump(A, B)) as one, worker(dump(A, B, missing=len(B.encode()) + 1)) as short:
        with pytest.raises(Unavailable, match="did not give all"):
            compared(one, short)
        with pytest.raises(Unavailable, match="did not give all"):
            verify(short, None, print)


def test_a_worker_that_says_what_it_holds() -> None:
    said: list[str] = []
    with worker(dump(A, "# empty graph <urn:g>")) as right, worker(dump(A, claims="0" * 64)) as wrong:
        assert verify(right, None, said.append)
        assert "7: 1 quads" in said[0]
        assert not verify(wrong, None, said.append)
        assert "DIFFERENT" in said[-1]


def test_what_a_master_says_of_other_workers_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"state": "serving", "applied_index": 7, "applied_chain": "c" * 64, "quads": 1}
    others: list[dict[str, object]] = [
        {**state, "id": "w2", "url": "http://w2", "signature": signature.render(signature.add(0, [A]))},
        {**state, "id": "w3", "url": "http://w3", "signature": "0" * 64},
        {**state, "id": "w4", "url": "http://w4", "applied_index": 8},
    ]
    monkeypatch.setattr("quadlog.compare.verify.status_of", lambda _: {"workers": others})
    said: list[str] = []
    with worker(dump(A)) as url:
        assert not verify(url, "http://m1", said.append)
        assert said[2:] == [
            "w2 says the same",
            f"w3 DIFFERENT: it says 1 quads, {'0' * 64}",
            "w4 is serving at index 8: not compared",
        ]
        del others[1]
        assert verify(url, "http://m1", said.append)


def test_names_need_a_master() -> None:
    with pytest.raises(UserError, match="give --master"):
        compared("w1", "w2")


def test_a_master_is_no_worker() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()

    with worker(answer) as url, pytest.raises(UserError, match="no worker"):
        verify(url, None, print)

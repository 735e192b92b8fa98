"""An answer on its way from the thread that writes it to the loop that sends it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from quadlog.answers import Streamed
from quadlog.errors import Unavailable, UserError
from quadlog.worker.pipe import ROOM, Pipe
from quadlog.worker.readers import Readers

if TYPE_CHECKING:
    from starlette.responses import Response

PIECE = b"x" * 8192


async def sent_by(answer: Response, *, pause: float = 0.0) -> tuple[list[bytes], bool]:
    """The pieces that a client gets, and whether it is told that this was all."""
    pieces: list[bytes] = []
    ended = False

    async def send(message: dict[str, object]) -> None:
        nonlocal ended
        await asyncio.sleep(pause)
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            assert isinstance(body, bytes)
            pieces.append(body)
            ended = not message.get("more_body", False)

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    await answer({"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}, receive, send)  # type: ignore[arg-type]
    return pieces, ended


def test_a_small_answer_is_whole() -> None:
    async def scenario() -> None:
        def write(pipe: Pipe) -> None:
            pipe.headers |= {"Content-Type": "text/plain"}
            pipe.write(b"sma")
            time.sleep(0.05)
            pipe.write(b"ll")

        answer = await Readers().answer(write)
        assert (answer.body, answer.headers["content-length"]) == (b"small", "5")
        assert answer.headers["content-type"] == "text/plain"
        nothing = await Readers().answer(lambda pipe: pipe.flush())
        assert nothing.body == b""

    asyncio.run(scenario())


def test_the_first_bytes_come_before_the_last_are_written() -> None:
    async def scenario() -> None:
        seen = threading.Event()

        def write(pipe: Pipe) -> None:
            pipe.write(PIECE)
            assert seen.wait(10)
            pipe.write(PIECE)

        answer = await Readers().answer(write)
        assert isinstance(answer, Streamed)
        seen.set()
        pieces, ended = await sent_by(answer)
        assert (b"".join(pieces), ended) == (PIECE * 2, True)

    asyncio.run(scenario())


def test_a_slow_client_holds_the_writer_back() -> None:
    async def scenario() -> None:
        written = 0

        def write(pipe: Pipe) -> None:
            nonlocal written
            for _ in range(200):
                written += pipe.write(PIECE)

        answer = await Readers().answer(write)
        await asyncio.sleep(0.2)
        assert written <= 2 * (ROOM + len(PIECE)), "what was taken first, and what waits"
        pieces, ended = await sent_by(answer, pause=0.001)
        assert (sum(map(len, pieces)), ended) == (200 * len(PIECE), True)
        assert max(map(len, pieces)) <= ROOM + len(PIECE)

    asyncio.run(scenario())


def test_an_error_is_an_answer_before_the_first_byte_and_no_end_after_it() -> None:
    async def scenario() -> None:
        def at_once(pipe: Pipe) -> None:
            pipe.write(b"{")
            raise UserError("the query failed")

        with pytest.raises(UserError, match="failed"):
            await Readers().answer(at_once)

        sent = threading.Event()

        def later(pipe: Pipe) -> None:
            pipe.write(PIECE)
            assert sent.wait(10)
            raise UserError("the query failed")

        answer = await Readers().answer(later)
        sent.set()
        pieces, ended = await sent_by(answer)
        assert (pieces, ended) == ([PIECE], False)

    asyncio.run(scenario())


def test_a_client_that_leaves_stops_the_writer() -> None:
    async def scenario() -> None:
        stopped = threading.Event()

        def write(pipe: Pipe) -> None:
            try:
                while True:
                    pipe.write(PIECE)
            except BrokenPipeError:
                stopped.set()
                raise

        readers = Readers(reads=1, turn_s=1)
        answer = await readers.answer(write)
        sending = asyncio.create_task(sent_by(answer, pause=0.01))
        await asyncio.sleep(0.05)
        sending.cancel()
        assert await asyncio.to_thread(stopped.wait, 2)
        assert (await readers.answer(lambda pipe: pipe.flush())).body == b"", "its turn is free again"

    asyncio.run(scenario())


def test_a_client_that_takes_nothing_is_left() -> None:
    async def scenario() -> None:
        pipe = Pipe(stall_s=0.1)

        def write() -> None:
            while True:
                pipe.write(PIECE)

        with pytest.raises(BrokenPipeError):
            await asyncio.to_thread(write)
        with pytest.raises(TimeoutError, match="took nothing"):
            await anext(pipe.pieces())

    asyncio.run(scenario())


def test_too_many_reads_are_told_to_go_elsewhere() -> None:
    async def scenario() -> None:
        go_on = threading.Event()

        def wait(pipe: Pipe) -> None:
            assert go_on.wait(10)
            pipe.flush()

        readers = Readers(reads=2, turn_s=0.1)
        busy = [asyncio.create_task(readers.answer(wait)) for _ in range(2)]
        await asyncio.sleep(0.02)
        with pytest.raises(Unavailable, match="2 reads"):
            await readers.answer(wait)
        go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*busy)] == [200, 200]

    asyncio.run(scenario())

"""A block that is ended from outside, and a request that ends with its client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from starlette.requests import Request

from quadlog.errors import ClientLeft
from quadlog.web.answers import WATCHED_AFTER_S, unless_left
from quadlog.web.fail_scope import FailScope

if TYPE_CHECKING:
    from starlette.types import Message

pytestmark = pytest.mark.anyio


async def test_the_error_is_raised_where_the_block_waits() -> None:
    scope = FailScope()
    asyncio.get_running_loop().call_later(0.01, scope.fail, KeyError("one"))
    with pytest.raises(KeyError), scope:
        await asyncio.sleep(5)
    current = cast("asyncio.Task[Any]", asyncio.current_task())
    assert current.cancelling() == 0, "the task is not cancelled any more"
    with scope:
        await asyncio.sleep(0.01)  # and can wait again


async def waiting(scope: FailScope, *errors: Exception) -> None:
    """Waits in a block that fails."""
    with scope:
        for error in errors:
            asyncio.get_running_loop().call_later(0.01, scope.fail, error)
        await asyncio.sleep(5)


async def test_the_first_error_counts_and_none_outside() -> None:
    scope = FailScope()
    scope.fail(KeyError("before"))
    with pytest.raises(ValueError, match="one"):
        await waiting(scope, ValueError("one"), KeyError("two"))
    scope.fail(KeyError("after"))
    await asyncio.sleep(0)


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    scope = FailScope()

    async def wait() -> None:
        with scope:
            await asyncio.sleep(5)

    for is_failed_too in (False, True):
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        if is_failed_too:
            scope.fail(KeyError("one"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_of_two_scopes_the_one_that_fails_raises() -> None:
    outer, inner = FailScope(), FailScope()
    asyncio.get_running_loop().call_later(0.01, outer.fail, KeyError("outer"))
    with pytest.raises(KeyError), outer:
        await waiting(inner)
    with outer, pytest.raises(ValueError, match="inner"):
        await waiting(inner, ValueError("inner"))


def request_of(left: asyncio.Event) -> Request:
    """Of a client that has sent everything, and leaves with the event."""

    async def receive() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "headers": []}, receive)


@pytest.mark.parametrize("after", [0.0, WATCHED_AFTER_S * 3])
async def test_work_ends_with_its_client(after: float) -> None:
    left, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            ended.set()

    asyncio.get_running_loop().call_later(after, left.set)
    with pytest.raises(ClientLeft):
        await unless_left(request_of(left), work())
    assert ended.is_set()


async def test_what_is_done_soon_starts_no_task() -> None:
    before = asyncio.all_tasks()
    seen: set[asyncio.Task[Any]] = set()

    async def work() -> str:
        await asyncio.sleep(0)
        seen.update(asyncio.all_tasks() - before)
        return "done"

    assert await unless_left(request_of(asyncio.Event()), work()) == "done"
    assert seen == set()


async def test_nothing_watches_when_the_work_is_done() -> None:
    before = asyncio.all_tasks()
    assert (
        await unless_left(request_of(asyncio.Event()), asyncio.sleep(WATCHED_AFTER_S * 3, "done")) == "done"
    )
    await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == before


async def test_errors_of_the_work_are_its_own() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise KeyError("its own")

    with pytest.raises(KeyError):
        await unless_left(request_of(asyncio.Event()), work())

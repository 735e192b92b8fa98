"""HTTP requests of commands to a master: they return a successful response, or raise a `QuadlogError`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import httpx

from quadlog.errors import OutcomeUnknown, Unavailable, error_named

if TYPE_CHECKING:
    from quadlog.errors import QuadlogError

TIMEOUT: Final = httpx.Timeout(90.0, connect=5.0)
"""A master answers a write within its `request-timeout`, which is 30 s by default."""


def request_master(master: str, method: str, path: str, *, unsure: str = "", **rest: Any) -> httpx.Response:  # noqa: ANN401
    """Send a request to a master, and return its response if it is successful.

    Args:
        master: URL of the master.
        method: HTTP method.
        path: path and query of the request.
        unsure: advice for a change whose outcome is unknown; empty for a request that changes nothing.
        rest: further arguments of `httpx.request`.

    Raises:
        QuadlogError: the error that the master reports.
        OutcomeUnknown: the request is a change, and the master does not answer, or not in a master's format.
        Unavailable: the master cannot be reached; or as before, and the request changes nothing.

    """
    master = master.rstrip("/")
    failure = OutcomeUnknown if unsure else Unavailable
    try:
        answer = httpx.request(method, f"{master}{path}", timeout=TIMEOUT, trust_env=False, **rest)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise Unavailable(f"{master} cannot be reached: {type(error).__name__} {error}") from error
    except httpx.HTTPError as error:
        message = f"{master} does not answer: {type(error).__name__} {error}. {unsure}".strip()
        raise failure(message) from error
    return checked(answer, failure(f"{master}{path} answered {answer.status_code}. {unsure}".strip()))


def checked(answer: httpx.Response, otherwise: QuadlogError) -> httpx.Response:
    """Return a successful response, or raise the error that the master reports; `otherwise` if it reports none."""
    if answer.is_success:
        return answer
    with suppress(ValueError, KeyError, TypeError):
        told = answer.json()
        otherwise = error_named(told["error"])(told["message"])
    raise otherwise

"""How commands ask a master over HTTP: a good answer, or an error of the tree."""

from __future__ import annotations

from typing import Any, Final

import httpx

from quadlog.errors import OutcomeUnknown, Unavailable, error_named

TIMEOUT: Final = httpx.Timeout(90.0, connect=5.0)
"""A master answers a write within its `request-timeout`, 30 s unless it is set otherwise."""


def asked(master: str, method: str, path: str, *, unsure: str = "", **rest: Any) -> httpx.Response:  # noqa: ANN401
    """A master's answer, if it is a good one.

    Args:
        master: its URL.
        method: of HTTP.
        path: what is asked for.
        unsure: what to do where it is not known whether it was taken.
        rest: as `httpx.request` has it.

    Raises:
        QuadlogError: what the master says.
        OutcomeUnknown: it was asked for a change, and does not answer, or as no master does.
        Unavailable: it cannot be reached; or so where nothing is changed.

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
    if answer.is_success:
        return answer
    try:
        told = answer.json()
        raise error_named(told["error"])(told["message"])
    except (ValueError, KeyError, TypeError):
        raise failure(f"{master}{path} answered {answer.status_code}. {unsure}".strip()) from None

"""How commands ask a master over HTTP: a good answer, or an error of the tree."""

from __future__ import annotations

from typing import Any, Final

import httpx

from quadlog.errors import Unavailable, error_named

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
        Unavailable: it does not answer, or as no master does.

    """
    master = master.rstrip("/")
    try:
        answer = httpx.request(method, f"{master}{path}", timeout=TIMEOUT, trust_env=False, **rest)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        message = f"{master} does not answer: {type(error).__name__} {error}. {unsure}".strip()
        raise Unavailable(message) from error
    if answer.is_success:
        return answer
    try:
        told = answer.json()
        raise error_named(told["error"])(told["message"])
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{master}{path} answered {answer.status_code}") from None

"""How a client asks for a synchronous or lazy transaction."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from quadlog.core.synchronous import COMMIT_MODE
from quadlog.errors import UserError
from quadlog.master.clients.commit_options import commit_options


def request(*headers: str) -> Request:
    return Request({"type": "http", "headers": [(b"quadlog-commit", one.encode()) for one in headers]})


@pytest.mark.parametrize(
    ("headers", "given", "mode"),
    [
        ((), {}, None),
        (("default",), {}, None),
        (("sync",), {}, "sync"),
        ((" LAZY ",), {}, "lazy"),
        ((), {"is_sync": ["true"]}, "sync"),
        ((), {"is_lazy": ["true"]}, "lazy"),
        ((), {"is_sync": ["false"], "is_lazy": ["false"]}, None),
        (("sync",), {"is_sync": ["true"], "is_lazy": ["false"]}, "sync"),
        (("sync", "sync"), {}, "sync"),
    ],
)
def test_a_mode_may_be_asked_for_in_any_way(
    headers: tuple[str, ...], given: dict[str, list[str]], mode: str | None
) -> None:
    assert commit_options(request(*headers), given) == ({} if mode is None else {COMMIT_MODE: mode})


@pytest.mark.parametrize(
    ("headers", "given"),
    [
        (("sync", "lazy"), {}),
        (("sync", "default"), {}),
        ((), {"is_sync": ["true"], "is_lazy": ["true"]}),
        (("lazy",), {"is_sync": ["true"]}),
        (("sync",), {"is_sync": ["false"]}),
        (("default",), {"is_sync": ["true"]}),
        ((), {"is_sync": ["true", "false"]}),
    ],
)
def test_contradictions_are_refused(headers: tuple[str, ...], given: dict[str, list[str]]) -> None:
    with pytest.raises(UserError, match="contradict each other: send one of them; nothing was logged"):
        commit_options(request(*headers), given)


@pytest.mark.parametrize(
    ("headers", "given", "name"),
    [
        (("now",), {}, "Quadlog-Commit"),
        (("",), {}, "Quadlog-Commit"),
        ((), {"is_sync": ["1"]}, "is_sync"),
        ((), {"is_lazy": [""]}, "is_lazy"),
        ((), {"is_sync": ["TRUE"]}, "is_sync"),
    ],
)
def test_a_value_that_is_not_understood_is_refused(
    headers: tuple[str, ...], given: dict[str, list[str]], name: str
) -> None:
    with pytest.raises(UserError, match=f"^{name} is .*nothing was logged"):
        commit_options(request(*headers), given)

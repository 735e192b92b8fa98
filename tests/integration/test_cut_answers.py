"""An answer that cannot be completed is an error to its client, in every format, direct and behind nginx."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from tests.support.cut_answers import CLIENTS, FORMATS, NGINX, Doors, by_hand, document
from tests.support.raw_http import status_of
from tests.support.workers.failing_answers import KILLS, check_by_library, doors, in_turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.cut_answers import Format

pytestmark = pytest.mark.anyio


def check_by_hand(found: Doors, way: str, form: Format, version: str) -> bool:
    """That no part is taken for the whole; whether there was a part at all, and not an error's status."""
    answer, is_whole = by_hand(found, way, form, version)
    if status_of(answer) != 200:
        assert status_of(answer) in {502, 503}, answer[:300]
        return False
    body = document(answer)
    assert len(body) > 1000
    # nginx ends what it passes on to HTTP/1.0 without a length as if it were whole: only the document can tell.
    assert not is_whole or (version == "1.0" and way == found.nginx_1_1), answer[:300]
    with pytest.raises(Exception, match=r"."):
        form.read(body)
    return True


async def test_a_part_of_an_answer_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """Each format directly, and one in each of the other ways."""
    async with doors(tmp_path) as found:
        others = [(way, version) for way in found.ways() for version in ("1.1", "1.0")][1:]
        tries = [(form, found.direct, "1.1") for form in FORMATS.values()]
        tries += [(form, *other) for form, other in zip(FORMATS.values(), others, strict=False)]
        had_a_part = await in_turns(
            partial(check_by_hand, found, way, form, version) for form, way, version in tries
        )
    assert sum(had_a_part) > len(had_a_part) / 4
    if NGINX is None:
        pytest.skip("nginx is not installed: only the direct way was tried")


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FORMATS)
async def test_of_a_hundred_answers_that_fail_none_is_taken_for_whole(tmp_path: Path, name: str) -> None:
    """By a client by hand, over both versions of HTTP, and by client libraries; directly and behind nginx."""
    form = FORMATS[name]
    async with doors(tmp_path) as found:
        checks: list[Callable[[], bool]] = []
        for way in found.ways():
            checks += [partial(check_by_hand, found, way, form, version) for version in ("1.1", "1.0")]
            checks += [partial(check_by_library, found, way, client, form) for client in CLIENTS]
        had_a_part = await in_turns(islice(cycle(checks), KILLS * len(found.ways())))
    assert sum(had_a_part) > len(had_a_part) / 4
    if NGINX is None:
        pytest.skip("nginx is not installed: only the direct way was tried")

"""Thousands of appends to lists, at three masters, while anything dies: the order itself shows in the lists.

Each append reads the length of its list, sets it one higher and notes the element at that place.  So a second
run, a loss or another order at any worker leaves other quads than a replay of the agreed log.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.core.model import Kind
from tests.e2e.book import Book, check_durable_is_ordered, check_exactly_once, one_log, resolve, write
from tests.e2e.cluster import Cluster, recount
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.book import Logged

LISTS = 50
CLIENTS = 64
SEED = 4
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"


def append(number: int, chance: random.Random) -> str:
    """The element `number` goes to the end of some list."""
    return (
        "DELETE { ?k <urn:len> ?n } INSERT { ?k <urn:len> ?m . ?e <urn:of> ?k ; <urn:pos> ?m ; <urn:val> 'v' }"
        f" WHERE {{ VALUES (?k ?e) {{ (<urn:list:{chance.randrange(LISTS)}> <urn:element:{number}>) }}"
        " ?k <urn:len> ?n . BIND(?n + 1 AS ?m) }"
    )


async def chaos(book: Book, cluster: Cluster, chance: random.Random, kills: int) -> None:
    """So many times a process is killed by -9 and started again, spread over all of the writes."""
    loop = asyncio.get_running_loop()
    lab = cluster.lab
    nodes = [node["id"] for node in (*lab.masters, *lab.workers)] + [f"broker-{dc['name']}" for dc in lab.dcs]
    for kill in range(kills):
        while book.done < len(book.texts) * 0.8 * kill / kills + 100:
            await asyncio.sleep(0.02)
        victim = chance.choice(nodes)
        await loop.run_in_executor(None, lab.kill, victim)
        await asyncio.sleep(chance.random())
        said = await loop.run_in_executor(None, lab.start, victim)
        print(f"{book.done:5} done: {victim} killed, {said.strip()[-16:]}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("appends", "kills"), [(1_500, 5), pytest.param(10_000, 20, marks=pytest.mark.soak)])
def test_appends_survive_kills(tmp_path: Path, appends: int, kills: int) -> None:
    chance = random.Random(SEED)
    texts = {f"append-{number}": append(number, chance) for number in range(appends)}
    with running_lab(tmp_path / "lab", dcs=3, workers=2) as lab:
        cluster = Cluster(lab)
        lists = " ".join(f"<urn:list:{number}> <urn:len> 0 ." for number in range(LISTS))
        made = cluster.update(f"INSERT DATA {{ {lists} }}", Idempotency_Key="lists")
        assert made.status_code == 204, made.text
        book = Book(texts=texts)

        async def everything() -> None:
            await asyncio.gather(
                write(book, cluster.masters, clients=CLIENTS),
                chaos(book, cluster, random.Random(SEED), kills),
            )

        started = time.monotonic()
        asyncio.run(everything())
        print(f"{appends} appends in {time.monotonic() - started:.0f} s")
        states = resolve(book, cluster)
        cluster.wait_until_equal()
        log = one_log(cluster)
        assert log[0].text.startswith("INSERT DATA"), "the lists come first"
        check_exactly_once(book, states, log[1:])
        check_durable_is_ordered(cluster, log)
        expected = replay(log[1:])
        for name, url in cluster.workers.items():
            signature, lines = recount(url)
            assert httpx.get(f"{url}/status").json()["signature"] == signature, name
            assert sorted(lines) == expected, name


def replay(log: Sequence[Logged]) -> list[str]:
    """The lines of the state after the log, by this test's own reading of its own updates."""
    length = dict.fromkeys(map(str, range(LISTS)), 0)
    lines: list[str] = []
    for entry in log:
        if (
            entry.kind is not Kind.TX
        ):  # both workers of the evaluating data centre were dead: another one went on
            continue
        found = re.search(r"<urn:list:(\d+)> <urn:element:(\d+)>", entry.text)
        assert found is not None
        of, element = found.groups()
        length[of] += 1
        subject = f"<urn:element:{element}>"
        lines += [
            f"{subject} <urn:of> <urn:list:{of}> .",
            f'{subject} <urn:pos> "{length[of]}"^^{INTEGER} .',
            f'{subject} <urn:val> "v" .',
        ]
    lines += [f'<urn:list:{of}> <urn:len> "{count}"^^{INTEGER} .' for of, count in length.items()]
    return sorted(lines)

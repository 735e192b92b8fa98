"""Copying: how long a new worker takes until it serves a store of another one, over a slow link.

    python -m tests.bench.copying [--quads 3000000] [--link 100 1000] [--how none auto] [--times 2] [--lose]

A store of products, offers and reviews, as shops have them, made as `quadlog import` makes it; a worker process that
has it, and another one with an empty directory that takes it through a relay with the link's rate (Mbit/s), as labs
have them.  Seconds are from that process's start until it serves.  CPU is that of both together.

With `--lose` the donor is killed on the way, then the taker, then the link is cut for 12 s; the last column tells from
which byte on the copy was asked for each time.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyoxigraph import RdfFormat

from quadlog.kafka.ports import free_ports
from quadlog.progress import Phases
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.quaddir import FILES as STORE_FILES
from quadlog.quadstore.quaddir import bytes_of
from quadlog.quadstore.quadstore import QuadStore
from quadlog.seed.build import build
from quadlog.seed.sources import ImportSource
from quadlog.snapshots.store_archive import FILES
from quadlog.topics import Topics
from quadlog.worker.catchup.partial_copy import COMING, CopyDescription
from quadlog.worker.repair.mender import QUADS
from tests.bench.catching_up import has_applied, log_of, make_topics, produce_log, running, tree
from tests.support.labs import running_broker
from tests.support.workers.relay import running_relay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.support.workers.relay import RunningRelay

    Running = Callable[[], AbstractContextManager[tuple[str, int]]]

_SHOP: Final = "http://shop.example.org"
_RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
CUT_S: Final = 12.0
"""Longer than a reader of a silent connection should wait, and than a taker tries in a row."""
_SYLLABLES: Final = [first + second for first in "bdfghklmnprstvwz" for second in "aeiou"]


def lines(quads: int) -> Iterator[str]:
    """N-Quads: 12 of each product, with its offers and its reviews; a graph of each hundred products."""
    chance = random.Random(7)
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))

    def text(count: int) -> str:
        return '"' + " ".join(chance.choices(words, cum_weights=weights, k=count)) + '"@en'

    def day() -> str:
        return f'"20{chance.randint(10, 25)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"^^<{_XSD}date>'

    for number in range(quads // 12):
        product, graph = f"<{_SHOP}/products/{number}>", f"<{_SHOP}/graphs/{number // 100}>"
        offer, review = (
            f"<{_SHOP}/offers/{chance.getrandbits(48):x}>",
            f"<{_SHOP}/reviews/{chance.getrandbits(48):x}>",
        )
        price = f'"{chance.randint(100, 99999) / 100}"^^<{_XSD}decimal>'
        for said in (
            f"{product} <{_RDF}type> <{_SHOP}/types/{chance.randint(0, 300)}>",
            f"{product} <{_RDFS}label> {text(3)}",
            f"{product} <{_RDFS}comment> {text(chance.randint(5, 40))}",
            f"{product} <{_SHOP}/terms/producer> <{_SHOP}/producers/{chance.randint(0, 5000)}>",
            f"{product} <{_SHOP}/terms/feature> <{_SHOP}/features/{chance.randint(0, 10000)}>",
            f"{offer} <{_SHOP}/terms/product> {product}",
            f"{offer} <{_SHOP}/terms/price> {price}",
            f"{offer} <{_SHOP}/terms/validTo> {day()}",
            f"{review} <{_SHOP}/terms/reviewOf> {product}",
            f'{review} <{_SHOP}/terms/rating> "{chance.randint(1, 10)}"^^<{_XSD}integer>',
            f"{review} <{_SHOP}/terms/reviewDate> {day()}",
            f"{review} <{_SHOP}/terms/text> {text(chance.randint(10, 60))}",
        ):
            yield f"{said} {graph} .\n"


def built(directory: Path, quads: int) -> Applied:
    """A worker's data-dir with so many quads."""
    directory.mkdir(parents=True)
    source = directory.parent / "shop.nq"
    with source.open("w") as file:
        file.writelines(lines(quads))
    place = directory.parent / "seed"
    sources = [ImportSource(name=source.name, path=source, format=RdfFormat.N_QUADS)]
    label = build(sources, place, Phases(), keep_blank_nodes=True)
    source.unlink()
    quads_dir = directory / QUADS
    quads_dir.mkdir()
    (place / FILES).rename(quads_dir / STORE_FILES)
    applied = Applied(signature=int(label.signature, 16), quads=label.quads)
    QuadStore.adopt(quads_dir, applied)
    return applied


def cpu_of(pid: int) -> float:
    """Seconds of a process and those that it has begun."""
    ticks = 0
    for one in tree(pid):
        stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(stat[11]) + int(stat[12])
    return ticks / 100


def main() -> None:
    """Print a line for each copy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quads", type=int, default=3_000_000)
    parser.add_argument("--link", type=float, nargs="+", default=[100.0, 1000.0])
    parser.add_argument("--how", nargs="+", default=["none", "auto"])
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--lose", action="store_true")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "broker") as broker:
        place, kafka, topics = Path(name), broker.bootstrap, Topics("main", "dc1")
        applied = built(place / "donor" / "data", said.quads)
        print(
            f"{applied.quads:,} quads, {bytes_of(place / 'donor' / 'data' / QUADS) / 1e9:.2f} GB",
            flush=True,
        )
        make_topics(kafka, topics)
        produce_log(kafka, topics, log_of(1, 1, behind=applied))
        [port] = free_ports(1)
        with running_relay(port, port) as relay:
            door = f"http://127.0.0.1:{relay.doors['dc1'].port}"
            settings: dict[str, str | float] = {
                "port": port,
                "worker_url": door,
                "catch_up": "incremental",
                "scrub_period": 0.0,
            }

            def donor() -> AbstractContextManager[tuple[str, int]]:
                return running(kafka, "main", place / "donor", **settings)

            if said.lose:
                for rate in said.link:
                    relay.slow(rate_mbit=rate)
                    for how in said.how:
                        took, starts = losing(kafka, place / f"{how}-{rate:.0f}", how, donor, relay)
                        print(
                            f"{rate:6.0f} Mbit/s, {how:>6}: {took:6.1f} s, asked for from {starts}",
                            flush=True,
                        )
                return
            with donor() as (url, giving):
                await_applied(url)
                for rate in said.link:
                    relay.slow(rate_mbit=rate)
                    for time_ in range(said.times):
                        for how in said.how:
                            took, cpu = copy(kafka, place / f"{how}-{rate:.0f}-{time_}", how, giving)
                            print(
                                f"{rate:6.0f} Mbit/s, {how:>6}: {took:6.1f} s, {cpu:6.1f} s of CPU",
                                flush=True,
                            )


def copy(kafka: str, directory: Path, how: str, donor: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    began, used = time.monotonic(), cpu_of(donor)
    with running(kafka, "main", directory, catch_up="full", copy_compression=how, scrub_period=0.0) as (
        url,
        pid,
    ):
        await_applied(url)
        took, cpu = time.monotonic() - began, cpu_of(donor) - used + cpu_of(pid)
    if "copy_taken" not in (log := (directory / "log").read_text()):
        sys.exit(log)
    return took, cpu


def await_applied(url: str) -> None:
    """Until a worker serves."""
    while not has_applied(url, 1):
        time.sleep(0.2)


def losing(
    kafka: str, directory: Path, how: str, donor: Running, relay: RunningRelay
) -> tuple[float, list[int]]:
    """Seconds until a copy is in service on whose way all is lost once, and from where on it was asked for."""

    def taker() -> AbstractContextManager[tuple[str, int]]:
        return running(kafka, "main", directory, catch_up="full", copy_compression=how, scrub_period=0.0)

    def await_percent(least: float) -> None:
        coming = directory / "data" / COMING
        while True:
            with suppress(FileNotFoundError):
                if (said := CopyDescription.load(coming)) and 100 * bytes_of(
                    coming / "store"
                ) >= least * said.label.size:
                    return
            time.sleep(0.1)

    with ExitStack() as donors:
        url, pid = donors.enter_context(donor())
        await_applied(url)
        log = directory.parent / "donor" / "log"
        began = time.monotonic()
        with taker() as (_, taking):
            await_percent(25)
            os.kill(pid, signal.SIGKILL)
            given = log.read_text()
            donors.enter_context(donor())
            await_percent(50)
            os.kill(taking, signal.SIGKILL)
        with taker() as (url, _):
            await_percent(75)
            relay.set(lambda state: state.cut("dc1", "dc2"))
            time.sleep(CUT_S)
            relay.set(lambda state: state.heal("dc1", "dc2"))
            await_applied(url)
        took = time.monotonic() - began
    if "copy_taken" not in (said := (directory / "log").read_text()):
        sys.exit(said)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", given + log.read_text())
    return took, [int(start) for start in re.findall(r"copy_requested.* start=(\d+)", plain)]


if __name__ == "__main__":
    main()

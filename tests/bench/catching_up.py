"""Catching up: how long a worker takes to the end of a log, effect by effect, by a bundle, and by a copy.

    python -m tests.bench.catching_up [--effects 10000 …] [--repeated 0 0.9 …] [--ways incremental compacted full]
        [--kafka BROKER] [--alone]

One broker, topics as an evaluating data centre has them, and a real worker process with an empty store, for each way.
Each effect gives one of `effects * (1 - repeated)` subjects another value: two lines, or one if it had none.  Memory is
what all processes of the worker have for themselves together (PSS), at the most, looked at twice a second.  A copy is
that of the worker that went the first way, over the network as it is here.  With `--kafka` the topics are those of a
broker that runs already, and are made there if they are not there.  With `--alone` the first 200,000 effects of the
same log are also applied as `make bench` has it (`applying`): without Kafka, by the CPU of one thread that does all.
"""

from __future__ import annotations

import argparse
import gc
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from quadlog import codec
from quadlog.broker import Admin
from quadlog.core.effects import signature
from quadlog.core.model import GENESIS, START, LogPosition, TransactionKind, effects_chain, hash_of
from quadlog.core.records import Effect, Fence, LoggedEntry, Outcome
from quadlog.kafka.ports import free_ports
from quadlog.leash import leashed
from quadlog.topics import Topics
from quadlog.web.server import YOUNG
from tests.bench.applying import followed
from tests.support.labs import running_broker
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quadlog.quadstore.applied import Applied

TERM: Final = hash_of(b"term")
ALONE: Final = 200_000
"""Effects that are applied as `make bench` has it."""
LOOK_S: Final = 0.1
"""Between two looks at whether all is applied."""
MEMORY_EACH: Final = 5
"""Looks, one of which is at the memory, too: that takes longer."""
BODY: Final = b"DELETE WHERE { <urn:s> <urn:p> ?o } ; INSERT DATA { <urn:s> <urn:p> 1 }"


def line_of(subject: int, value: int) -> str:
    """Some 130 bytes, as readings of sensors have them."""
    return (
        f"<https://example.org/building/sensor-{subject}> <https://brickschema.org/schema/Brick#value>"
        f' "{value}" <https://example.org/graph/readings> .'
    )


def log_of(
    effects: int, subjects: int, behind: Applied | None = None
) -> Iterator[tuple[LoggedEntry, Effect]]:
    """Entries with their effects, behind a store as it is before the first one."""
    chance = random.Random(subjects)
    held: dict[int, str] = {}
    total, quads = (behind.signature, behind.quads) if behind is not None else (0, 0)
    chain, last = GENESIS, START
    for index in range(1, effects + 1):
        subject = index if subjects == effects else chance.randrange(subjects)
        line, old = line_of(subject, index), held.get(subject)
        held[subject] = line
        before = total
        total = signature.add(before if old is None else signature.remove(before, [old]), [line])
        identity, entry_chain = index.to_bytes(16, "big"), hash_of(last.chain, index.to_bytes(8, "big"))
        entry = LoggedEntry(
            index=index,
            kind=TransactionKind.TX,
            id=identity,
            timestamp=index,
            digest=bytes(32),
            options={},
            previous=last.chain,
            chain=entry_chain,
            epoch=1,
            lineage=bytes(32),
            origin="dc1-m1",
            created=0,
            media_type="application/sparql-update",
            body=BODY,
        )
        last = LogPosition(index, entry_chain)
        chain = effects_chain(chain, entry_chain, Outcome.APPLIED, signature.as_bytes(total))
        yield (
            entry,
            Effect(
                index=index,
                id=identity,
                entry_chain=entry_chain,
                term=TERM,
                attempt=1,
                outcome=Outcome.APPLIED,
                deleted=() if old is None else (old,),
                inserted=(line,),
                quads=quads + len(held),
                signature_before=signature.as_bytes(before),
                signature_after=signature.as_bytes(total),
                chain=chain,
            ),
        )


def make_topics(kafka: str, topics: Topics) -> None:
    """All that a worker asks for; its evaluator has begun."""
    admin = AdminClient({"bootstrap.servers": kafka})
    names = [*topics.followed, topics.status]
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result()
    produce(kafka, {topics.effects: [codec.encode(Fence(term=TERM, attempt=1, worker="w"))]})


def produce_log(kafka: str, topics: Topics, log: Iterable[tuple[LoggedEntry, Effect]]) -> None:
    """The next entries, with their effects."""
    while some := list(islice(log, 10_000)):
        entries = [value for entry, _ in some for value in codec.encode_entry(entry)]
        effects = [value for _, effect in some for value in codec.encode_effect(effect)]
        produce(kafka, {topics.agreed: entries, topics.effects: effects})


def produce(kafka: str, values: dict[str, list[bytes]]) -> None:
    """Records of some topics, in order."""
    producer = Producer(
        {"bootstrap.servers": kafka, "linger.ms": 50, "batch.size": 1_000_000, "enable.idempotence": True}
    )
    for topic, some in values.items():
        for value in some:
            while True:
                with suppress(BufferError):
                    producer.produce(topic, key=b"1", value=value)
                    break
                producer.poll(0.1)
    producer.flush()


def made(kafka: str, effects: int, subjects: int) -> str:
    """The repository with these topics."""
    repository = f"r{effects}-{subjects}"
    topics = Topics(repository, "dc1")
    if not Admin(kafka).ids([topics.effects]):
        began = time.monotonic()
        make_topics(kafka, topics)
        produce_log(kafka, topics, log_of(effects, subjects))
        print(
            f"{effects:,} effects on {subjects:,} subjects, made in {time.monotonic() - began:.0f} s",
            flush=True,
        )
    return repository


def tree(pid: int) -> Iterator[int]:
    """A process and those that it has begun."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):  # each thread has its own
        with suppress(OSError):
            for child in children.read_text().split():
                yield from tree(int(child))


class Memory(NamedTuple):
    """Bytes of some processes together: their proportional share (PSS) of whatever several have."""

    own: int
    """Written by them: there is no other place for it."""
    mapped: int
    """As it stands in files, programs, libraries, Java's archives of classes: dropped when others need the memory."""

    @property
    def all(self) -> int:
        """Both."""
        return self.own + self.mapped


def memory_of(pid: int) -> Memory:
    """What a process and those that it has begun have."""
    found = dict.fromkeys(("Pss:", "Pss_File:"), 0)
    for one in tree(pid):
        with suppress(OSError):
            status = Path(f"/proc/{one}/status").read_text()
            parent = next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:"))
            exe = Path(f"/proc/{one}/exe").readlink()
            if exe.name == "java" and exe == Path(f"/proc/{parent}/exe").readlink():
                continue  # about to become another program: until then it has its parent's memory, not its own
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                word, size, *_ = line.split()
                if word in found:
                    found[word] += int(size) * 1024
    return Memory(own=found["Pss:"] - found["Pss_File:"], mapped=found["Pss_File:"])


class Caught(NamedTuple):
    """A worker that came to the end of its log."""

    url: str
    seconds: float
    """From its start."""
    memory: int
    """Bytes at the most, until then."""


@contextmanager
def running(
    kafka: str, repository: str, directory: Path, **settings: str | float
) -> Iterator[tuple[str, int]]:
    """A worker process: its URL and its process id.  Its directory has its `data` and its `log`, which begins anew."""
    port = settings.get("port") or free_ports(1)[0]
    url = f"http://127.0.0.1:{port}"
    said = {
        "node-id": f"dc1-{directory.name}",
        "dc": "dc1",
        "repository": repository,
        "data-dir": str(directory / "data"),
        "port": port,
        "kafka": kafka,
        "worker-url": url,
    } | {name.replace("_", "-"): value for name, value in settings.items()}
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "worker.toml"
    file.write_text("".join(f"{name} = {value!r}\n" for name, value in said.items()))
    command = leashed([sys.executable, "-m", "quadlog", "worker", "--config", str(file)])
    with (directory / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield url, process.pid
        finally:
            process.terminate()


@contextmanager
def catching_up(
    kafka: str, repository: str, directory: Path, until: int, **settings: str | float
) -> Iterator[Caught]:
    """A worker that goes on when it has caught up."""
    began, most = time.monotonic(), 0
    with running(kafka, repository, directory, **settings) as (url, pid):
        for look in count():
            if has_applied(url, until):
                break
            if look % MEMORY_EACH == 0:
                assert Path(f"/proc/{pid}/smaps_rollup").exists(), (directory / "log").read_text()
                most = max(most, memory_of(pid).all)
            time.sleep(LOOK_S)
        yield Caught(url, time.monotonic() - began, most)


def has_applied(url: str, index: int) -> bool:
    """Whether a worker that may not be there yet is so far."""
    with suppress(httpx.TransportError):
        return bool(httpx.get(f"{url}/status").json()["applied_index"] >= index)
    return False


def main() -> None:
    """Print a line for each log and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--effects", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeated", type=float, nargs="+", default=[0.0, 0.9, 0.99])
    parser.add_argument("--ways", nargs="+", default=["incremental", "compacted", "full"])
    parser.add_argument("--kafka", default="")
    parser.add_argument("--alone", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        own = nullcontext() if chosen.kafka else running_broker(Path(name) / "broker")
        with own as broker:
            kafka = broker.bootstrap if broker else chosen.kafka
            for effects in chosen.effects:
                for repeated in chosen.repeated:
                    subjects = max(1, round(effects * (1 - repeated)))
                    repository = made(kafka, effects, subjects)
                    if chosen.alone:
                        rate = alone(Path(name) / f"{repository}-alone", effects, subjects)
                        print(f"       alone: {rate:19,.0f} effects/s of CPU")
                    all_ways(kafka, repository, Path(name) / repository, effects, chosen.ways)


def alone(directory: Path, effects: int, subjects: int) -> float:
    """The rate of a follower in batches of 1,000, as `applying` measures it."""
    log = Log()
    began = Fence(term=TERM, attempt=1, worker="w")
    log.produce(TOPICS.effects, key=b"1", values=[codec.encode(began)], headers=[])
    for entry, effect in islice(log_of(effects, subjects), ALONE):
        log.produce(TOPICS.agreed, key=b"1", values=codec.encode_entry(entry), headers=[])
        log.produce(TOPICS.effects, key=b"1", values=codec.encode_effect(effect), headers=[])
    gc.freeze()
    gc.set_threshold(YOUNG)  # as in a worker's process
    return followed(Worker(directory, log, "follows"), 1_000)


def all_ways(kafka: str, repository: str, directory: Path, effects: int, ways: Sequence[str]) -> None:
    """Print a line for each; the worker that goes the first one stays, and gives the copies."""
    with ExitStack() as stack:
        for number, way in enumerate(ways):
            worker = catching_up(kafka, repository, directory / f"{number}-{way}", effects, catch_up=way)
            with worker if number else nullcontext(stack.enter_context(worker)) as found:
                rate = f"{effects / found.seconds:9,.0f} effects/s"
                print(f"{way:>12}: {found.seconds:7.1f} s, {rate}, {found.memory / 1e6:6,.0f} MB", flush=True)


if __name__ == "__main__":
    main()

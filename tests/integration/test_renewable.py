"""An outlet that is given up and renewed, on a real broker: what was said before stands before what is said then."""

from __future__ import annotations

import gc
import random
import socket
import threading
import time
import weakref
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.broker import RenewableOutlet, last_records
from quadlog.broker import outlet as outlet_module
from quadlog.kafka.broker_process import BrokerProcess, PeerListener
from quadlog.kafka.ports import free_ports
from quadlog.kafka.prepare import prepare
from tests.support.brokers import new_topic
from tests.support.labs import RunningBroker
from tests.support.masters.voices import configure, say, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMED: dict[str, Any] = {"key": b"k", "headers": []}

HELD_S = 0.5
"""In which something would have come."""


@pytest.fixture
def outlet(kafka: str) -> Iterator[RenewableOutlet]:
    with closing(RenewableOutlet(kafka, client="test")) as outlet:
        yield outlet


def warm(outlet: RenewableOutlet, topic: str) -> None:
    """A new producer needs a second until its first record leaves."""
    say(outlet, topic, b"warm")
    until(lambda: outlet.is_settled)


def held_in(kafka: str, topic: str) -> list[bytes]:
    return [record.value for record in last_records(kafka, topic, count=1000, timeout=20)]


def renew(outlet: RenewableOutlet) -> None:
    """As its owners do."""
    until(lambda: outlet.is_settled)
    outlet.renew()


def test_nothing_is_taken_behind_what_was_refused(kafka: str, topic: str, outlet: RenewableOutlet) -> None:
    """Whenever the topic takes such records again, it has a beginning of what was said; here most often none of it."""
    moments, beside, stands, taken = random.Random(1), new_topic(kafka), list[bytes](), list[int]()
    for turn in range(6):
        warm(outlet, beside)
        configure(kafka, topic, "100")
        takes = threading.Timer(moments.uniform(0.02, 0.1), configure, (kafka, topic, None))
        takes.start()
        said = [b"%d %d %s" % (turn, number, b"x" * 100) for number in range(100)]
        for value in said:
            say(outlet, topic, value)
            time.sleep(0.002)
        takes.join()
        until(lambda: outlet.is_settled)
        count = len(held_in(kafka, topic)) - len(stands)
        stands += said[:count]
        assert held_in(kafka, topic) == stands
        assert bool(outlet.refusal) == (count < len(said))
        taken.append(count)
        outlet.give_up()
        outlet.renew()
        warm(outlet, topic)
        stands.append(b"warm")
    assert 0 in taken, "it was refused"
    assert held_in(kafka, topic) == stands


def is_refused(outlet: RenewableOutlet, topic: str) -> bool:
    """A broker hears a little later than whoever asked how its topics are configured."""
    say(outlet, topic, b"x" * 1000)
    return bool(outlet.refusal)


def is_taken(outlet: RenewableOutlet, topic: str) -> bool:
    """Said once more where it is refused still: see `is_refused`."""
    if outlet.refusal:
        outlet.give_up()
        renew(outlet)
    say(outlet, topic, b"taken")
    until(lambda: outlet.is_settled)
    return not outlet.refusal


def test_a_producer_that_was_refused_is_let_go_of(kafka: str, topic: str, outlet: RenewableOutlet) -> None:
    configure(kafka, topic, "100")
    refused = weakref.ref(outlet._outlet)
    until(lambda: is_refused(outlet, topic))
    outlet.give_up()
    renew(outlet)
    until(lambda: gc.collect() >= 0 and refused() is None)
    assert outlet._outlet is not refused(), "another one speaks"
    configure(kafka, topic, None)
    until(lambda: is_taken(outlet, topic))


# --- what is on its way -----------------------------------------------------------------------------


class Way:
    """Connections to a broker: what is sent may be kept on the way, and come when its sender has long gone."""

    def __init__(self, port: int, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", port))
        self._lock = threading.Lock()
        self._is_shut = False
        self._kept: list[tuple[socket.socket, list[bytes]]] = []
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._to))
            kept = list[bytes]()
            with self._lock:
                self._clients.append(client)
                self._kept.append((server, kept))
            threading.Thread(target=self._send, args=(client, server, kept), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _send(self, client: socket.socket, server: socket.socket, kept: list[bytes]) -> None:
        try:
            while data := client.recv(65536):
                with self._lock:
                    if self._is_shut or kept:
                        kept.append(data)
                    else:
                        server.sendall(data)
        except OSError:
            pass  # either end is gone: so is this way

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass  # as above

    def shut(self) -> None:
        """Whatever is sent from here on is kept."""
        with self._lock:
            self._is_shut = True

    def keeps(self, value: bytes) -> bool:
        with self._lock:
            return any(value in b"".join(kept) for _, kept in self._kept)

    def leave(self) -> None:
        """All senders are cut off; what is kept stays, and who connects anew gets through."""
        with self._lock:
            self._is_shut = False
            for client in self._clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)

    def let_go(self) -> None:
        """What was kept comes."""
        with self._lock:
            self._is_shut = False
            for server, kept in self._kept:
                if kept:
                    server.sendall(b"".join(kept))
                    kept.clear()

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            for connection in (*self._clients, *(server for server, _ in self._kept)):
                connection.close()


@contextmanager
def broker_behind(directory: Path) -> Iterator[tuple[RunningBroker, Way, str]]:
    """A broker, a way to it, and the way's address."""
    port, controller_port, peer_port, way_port = free_ports(4)
    process = BrokerProcess(
        installation=prepare(print),
        directory=directory,
        log=directory / "broker.log",
        port=port,
        controller_port=controller_port,
        peer_listeners=(PeerListener(dc="far", port=peer_port, advertised_port=way_port),),
    )
    broker = RunningBroker(process)
    try:
        broker.start()
        with closing(Way(way_port, peer_port)) as way:
            yield broker, way, f"127.0.0.1:{way_port}"
    finally:
        broker.kill()


def test_what_is_on_its_way_comes_before_all_else_and_once(tmp_path: Path) -> None:
    with (
        broker_behind(tmp_path) as (broker, way, address),
        closing(RenewableOutlet(address, client="test")) as outlet,
    ):
        kafka = broker.bootstrap
        topic = new_topic(kafka)
        warm(outlet, topic)

        way.shut()
        say(outlet, topic, b"second")
        until(lambda: way.keeps(b"second"))
        with outlet.together():
            say(outlet, topic, b"held")
            outlet.give_up()
        assert outlet.waits_since is None
        say(outlet, topic, b"nowhere")
        time.sleep(HELD_S)
        assert not outlet.is_settled
        with pytest.raises(AssertionError, match="could come behind"):
            outlet.renew()
        way.let_go()
        renew(outlet)
        assert held_in(kafka, topic) == [b"warm", b"second"]

        way.shut()
        say(outlet, topic, b"third")
        until(lambda: way.keeps(b"third"))
        outlet.give_up()
        way.leave()
        renew(outlet)
        say(outlet, topic, b"fourth")
        until(lambda: outlet.is_settled)
        said = [b"warm", b"second", b"third", b"fourth"]
        assert held_in(kafka, topic) == said
        assert way.keeps(b"third")
        way.let_go()
        time.sleep(HELD_S)
        assert held_in(kafka, topic) == said, "also what is behind has come before"


def test_who_waits_for_room_is_let_go_with_what_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlet_module, "BUFFER", 4096)
    with (
        broker_behind(tmp_path) as (broker, way, address),
        closing(RenewableOutlet(address, client="test")) as outlet,
    ):
        topic = new_topic(broker.bootstrap)
        warm(outlet, topic)
        way.shut()
        values = [b"%d %s" % (number, b"x" * 500) for number in range(20)]
        speaker = threading.Thread(target=outlet.produce, args=(topic,), kwargs={**NAMED, "values": values})
        speaker.start()
        speaker.join(HELD_S)
        assert speaker.is_alive(), "there is no room for all"
        outlet.give_up()
        speaker.join(10)
        assert not speaker.is_alive()
        way.let_go()
        renew(outlet)
        say(outlet, topic, b"last")
        until(lambda: outlet.is_settled)
        _, *taken, last = held_in(broker.bootstrap, topic)
        assert (taken, last) == (values[: len(taken)], b"last")
        assert 0 < len(taken) < len(values)

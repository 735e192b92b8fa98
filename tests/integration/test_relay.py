"""The relay of a link between real sockets: what passes, when, how fast, and what a cut does."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import socket
import threading
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

import pytest

from quadlog.lab.links.relay import MOST_KNOCKING
from tests.support.workers.relay import RunningRelay, echo, receive, rtt, running_relay, server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.waits

HELD_SHUT = 0.5
"""Seconds in which something would have passed: thousands of times what it takes."""
MIB = 1 << 20


@pytest.fixture
def relay() -> Iterator[RunningRelay]:
    """A link between two echo servers."""
    with server(echo) as one, server(echo) as other, running_relay(one, other) as running:
        yield running


def is_silent(connection: socket.socket) -> bool:
    """Nothing comes: no byte, no end, no reset."""
    connection.settimeout(HELD_SHUT)
    try:
        heard = connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(20)
    pytest.fail(f"heard {heard!r}")


# What passes.


def test_a_large_stream_arrives_whole_both_ways_at_once(relay: RunningRelay) -> None:
    content = random.Random(1).randbytes(8 * MIB) * 4
    with relay.connect() as client:
        sender = threading.Thread(target=client.sendall, args=(content,))
        sender.start()
        back = receive(client, len(content))
        sender.join()
    assert hashlib.sha256(back).digest() == hashlib.sha256(content).digest()


def test_a_large_stream_arrives_whole_whatever_the_link_does(relay: RunningRelay) -> None:
    content = random.Random(2).randbytes(24 * MIB)
    weather = random.Random(3)
    with relay.connect() as client:
        sender = threading.Thread(target=client.sendall, args=(content,))
        sender.start()
        back: list[bytes] = []
        receiver = threading.Thread(target=lambda: back.append(receive(client, len(content))))
        receiver.start()
        while receiver.is_alive():
            relay.slow(latency_ms=weather.choice([0, 0, 3]), rate_mbit=weather.choice([0, 0, 800]))
            time.sleep(weather.uniform(0.001, 0.02))
            relay.set(lambda state: state.cut("dc1", "dc2"))
            time.sleep(0.001)
            relay.set(lambda state: state.heal_all())
            time.sleep(weather.uniform(0.001, 0.02))
        sender.join()
    assert hashlib.sha256(back[0]).digest() == hashlib.sha256(content).digest()


def test_many_connections(relay: RunningRelay) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(relay.connect(opener)) for opener in ("dc1", "dc2") * 100]
        for number, client in enumerate(clients):
            client.sendall(b"%6d" % number)
        for number, client in enumerate(clients):
            assert receive(client, 6) == b"%6d" % number
        [link] = relay.relay.describe()
        assert link["connections"] == 200
    gone(relay)


def gone(relay: RunningRelay) -> None:
    """Every connection is over, at the relay too."""
    deadline = time.monotonic() + 5
    while relay.relay.describe()[0]["connections"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("latency", [0, 20])
def test_a_half_closed_connection_still_answers(latency: int) -> None:
    def count_all(client: socket.socket) -> None:
        total = 0
        while heard := client.recv(65536):
            total += len(heard)
        client.sendall(b"%d" % total)

    with server(count_all) as one, server(count_all) as other, running_relay(one, other) as relay:
        relay.slow(latency_ms=latency)
        with relay.connect() as client:
            client.sendall(b"x" * 300_000)
            client.shutdown(socket.SHUT_WR)
            assert receive(client, 100) == b"300000"
        gone(relay)


@pytest.mark.parametrize("latency", [0, 20])
def test_a_reset_is_a_reset_behind_what_was_said_before(latency: int) -> None:
    def last_words(client: socket.socket) -> None:
        client.recv(1)
        client.sendall(b"last words")
        time.sleep(0.05)  # a reset may overtake what its own kernel still sends
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with server(last_words) as one, server(last_words) as other, running_relay(one, other) as relay:
        relay.slow(latency_ms=latency)
        with relay.connect() as client:
            client.sendall(b"x")
            assert receive(client, 10) == b"last words"
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        gone(relay)


def test_where_nobody_listens_the_client_is_reset() -> None:
    with socket.create_server(("127.0.0.1", 0)) as was:
        port = was.getsockname()[1]
    with (
        running_relay(port, port) as relay,
        pytest.raises(ConnectionResetError),
        relay.connect() as client,
    ):
        client.recv(1)


def test_a_client_that_stops_reading_costs_a_bounded_amount_of_memory(relay: RunningRelay) -> None:
    relay.slow(latency_ms=5)
    with relay.connect() as client:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent = send_until_held_back(client)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert len(receive(client, sent)) == sent, "nothing of what was held is lost"
    print(f"{sent / MIB:.0f} MiB in all buffers, {grown / 1024:.0f} MiB more memory")
    assert grown < 16 * 1024, "two MiB are held, the rest is the test's own"


def send_until_held_back(client: socket.socket) -> int:
    """Send until TCP takes no more; return how much that was."""
    client.settimeout(HELD_SHUT)
    sent = 0
    try:
        while sent < 400 * MIB:
            sent += client.send(bytes(MIB))
    except TimeoutError:
        return sent
    finally:
        client.settimeout(20)
    pytest.fail("nothing held the sender back")


# How fast.


def test_latency_is_each_way_and_can_change(relay: RunningRelay) -> None:
    with relay.connect() as client, relay.connect("dc2") as other:
        for latency, low, high in ((30, 60, 90), (5, 10, 40), (0, 0, 10)):
            relay.slow(latency_ms=latency)
            for connection in (client, other):
                took = median(rtt(connection) for _ in range(9)) * 1000
                print(f"{latency} ms each way: {took:.1f} ms there and back")
                assert low <= took < high


def test_latency_delays_and_does_not_slow_a_stream(relay: RunningRelay) -> None:
    relay.slow(latency_ms=40)
    content = os.urandom(4 * MIB)
    with relay.connect() as client:
        began = time.perf_counter()
        sender = threading.Thread(target=client.sendall, args=(content,))
        sender.start()
        assert receive(client, len(content)) == content
        sender.join()
        took = time.perf_counter() - began
    print(f"4 MiB there and back with 40 ms each way: {took * 1000:.0f} ms")
    assert took < 1.0, "a window of 1 MiB a way: some six delays, not one for each packet"


@pytest.mark.parametrize("mbit", [8, 200])
@pytest.mark.parametrize("connections", [1, 5])
def test_rate_is_shared_by_all_connections(mbit: int, connections: int) -> None:
    heard = [0]

    def swallow(client: socket.socket) -> None:
        try:
            while count := len(client.recv(65536)):
                heard[0] += count
        except OSError:
            return

    def fill(client: socket.socket) -> None:
        try:
            while True:
                client.sendall(bytes(16384))
        except OSError:
            return

    with server(swallow) as port, running_relay(port, port) as relay, ExitStack() as stack:
        relay.slow(rate_mbit=mbit)
        for _ in range(connections):
            client = stack.enter_context(relay.connect())
            threading.Thread(target=fill, args=(client,), daemon=True).start()
            stack.callback(client.shutdown, socket.SHUT_RDWR)
        time.sleep(0.2)
        before, began = heard[0], time.perf_counter()
        time.sleep(1.0)
        measured = (heard[0] - before) * 8 / 1e6 / (time.perf_counter() - began)
        print(f"{measured:.1f} of {mbit} Mbit/s through {connections} connections")
        assert measured == pytest.approx(mbit, rel=0.15)


def test_a_transfer_does_not_shut_a_heartbeat_out(relay: RunningRelay) -> None:
    relay.slow(rate_mbit=10)
    with relay.connect() as bulk, relay.connect() as client:
        stopped = threading.Event()

        def fill() -> None:
            bulk.settimeout(0.2)
            while not stopped.is_set():
                try:
                    bulk.send(bytes(65536))
                except TimeoutError:
                    continue

        filling = threading.Thread(target=fill)
        filling.start()
        time.sleep(0.5)
        took = sorted(rtt(client) for _ in range(20))
        stopped.set()
        filling.join()
    print(
        f"beside a transfer that fills 10 Mbit/s: {took[10] * 1000:.0f} ms, at most {took[-1] * 1000:.0f} ms"
    )
    assert took[-1] < 0.2


def test_a_limit_that_is_taken_away_frees_what_waited(relay: RunningRelay) -> None:
    relay.slow(rate_mbit=0.01)
    with relay.connect() as client:
        client.sendall(bytes(200_000))  # 160 s at this rate
        time.sleep(0.1)
        relay.slow(rate_mbit=0)
        began = time.perf_counter()
        receive(client, 200_000)
        assert time.perf_counter() - began < 1


# A cut.


def test_a_cut_is_silence_and_heal_brings_what_was_said(relay: RunningRelay) -> None:
    with relay.connect() as client:
        rtt(client)
        relay.set(lambda state: state.cut("dc1", "dc2"))
        client.sendall(b"said in the dark")
        assert is_silent(client)
        with relay.connect() as late:
            late.sendall(b"knock")
            assert is_silent(late)
            began = time.perf_counter()
            relay.set(lambda state: state.heal("dc2", "dc1"))
            assert receive(client, 16) == b"said in the dark"
            assert receive(late, 5) == b"knock"
            print(f"heal to the first byte: {(time.perf_counter() - began) * 1000:.1f} ms")


@pytest.mark.parametrize("moment", [0.05, 0.15])
def test_what_travels_is_held_by_a_cut(relay: RunningRelay, moment: float) -> None:
    relay.slow(latency_ms=100)
    with relay.connect() as client:
        client.sendall(b"on its way")
        time.sleep(moment)  # on its way there, or back
        relay.set(lambda state: state.cut("dc1", "dc2"))
        assert is_silent(client)
        relay.set(lambda state: state.heal_all())
        assert receive(client, 10) == b"on its way"


def test_what_waits_for_its_turn_is_held_by_a_cut() -> None:
    heard = [0]

    def swallow(client: socket.socket) -> None:
        while count := len(client.recv(65536)):
            heard[0] += count

    with server(swallow) as port, running_relay(port, port) as relay, relay.connect() as client:
        relay.slow(rate_mbit=0.02)  # a packet every 600 ms
        client.sendall(bytes(100_000))
        time.sleep(0.2)
        relay.set(lambda state: state.cut("dc1", "dc2"))
        time.sleep(0.05)
        before = heard[0]
        assert 0 < before < 100_000
        time.sleep(0.8)
        assert heard[0] == before
        relay.slow(rate_mbit=0)
        relay.set(lambda state: state.heal_all())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        assert heard[0] == 100_000


def test_one_way_holds_what_the_deaf_one_opened(relay: RunningRelay) -> None:
    with relay.connect("dc1") as mine, relay.connect("dc2") as theirs:
        rtt(mine)
        rtt(theirs)
        relay.set(lambda state: state.cut("dc1", "dc2", one_way=True))
        theirs.sendall(b"?")
        assert is_silent(theirs)
        rtt(mine)
        relay.set(lambda state: state.heal_all())
        assert receive(theirs, 1) == b"?"


def test_a_sender_is_held_back_by_a_cut(relay: RunningRelay) -> None:
    with relay.connect() as client:
        rtt(client)
        relay.set(lambda state: state.cut("dc1", "dc2"))
        sent = send_until_held_back(client)
        relay.set(lambda state: state.heal_all())
        assert len(receive(client, sent)) == sent


def test_an_end_that_was_said_in_a_cut_is_heard_after_it(relay: RunningRelay) -> None:
    with relay.connect() as client:
        rtt(client)
        relay.set(lambda state: state.cut("dc1", "dc2"))
        client.sendall(b"bye")
        client.shutdown(socket.SHUT_WR)
        assert is_silent(client)
        relay.set(lambda state: state.heal_all())
        assert receive(client, 10) == b"bye"
    gone(relay)


def test_who_gave_up_knocking_is_not_let_in() -> None:
    served: list[bytes] = []

    def note(client: socket.socket) -> None:
        served.append(client.recv(10))

    with server(note) as port, running_relay(port, port) as relay:
        relay.set(lambda state: state.cut("dc1", "dc2"))
        with relay.connect() as impatient:
            impatient.sendall(b"too late")
        with relay.connect() as patient:
            patient.sendall(b"patient")
            time.sleep(0.1)
            relay.set(lambda state: state.heal_all())
            assert patient.recv(1) == b""
        assert served == [b"patient"]


def test_a_long_cut_keeps_a_bounded_number_of_knockers_and_none_of_the_live(relay: RunningRelay) -> None:
    relay.set(lambda state: state.cut("dc1", "dc2"))
    with relay.connect() as patient:
        patient.sendall(b"still here")
        for _ in range(3 * MOST_KNOCKING):
            with relay.connect():
                pass
        time.sleep(0.2)
        [link] = relay.relay.describe()
        assert 1 <= link["waiting"] <= MOST_KNOCKING
        relay.set(lambda state: state.heal_all())
        assert receive(patient, 10) == b"still here"

"""Each question is begun by its process or had back by the worker, whoever is faster."""

from __future__ import annotations

import threading

from quadlog.worker.reads.tickets import TicketReader, Tickets

NUMBERS = 3000


def test_each_ticket_goes_to_one_side() -> None:
    tickets, asked, first = Tickets(), threading.Semaphore(0), threading.Event()
    begun: set[int] = set()

    def begin() -> None:
        reader = TicketReader(tickets.inlet)
        for number in range(1, NUMBERS + 1):
            asked.acquire()
            if reader.admit(number):
                begun.add(number)
                first.set()

    process = threading.Thread(target=begin)
    process.start()
    back: set[int] = set()
    tickets.issue(1)
    asked.release()
    assert first.wait(30), "nobody withdraws it"
    for number in range(2, NUMBERS + 1):
        tickets.issue(number)
        if number == NUMBERS:
            back |= tickets.withdraw()  # it is not asked for yet
        asked.release()
        if number % 3 == 0:
            back |= tickets.withdraw()
    process.join()
    assert tickets.withdraw() == set()
    tickets.close()
    assert begun & back == set()
    assert begun | back == set(range(1, NUMBERS + 1))
    assert begun
    assert back

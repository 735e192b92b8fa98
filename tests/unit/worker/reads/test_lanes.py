"""Questions wait in order, and long ones are remembered."""

from __future__ import annotations

from quadlog.worker.reads.call import ReadCall
from quadlog.worker.reads.frames import QueryRequest
from quadlog.worker.reads.lanes import KNOWN, Lanes


def call(text: str | None) -> ReadCall:
    return ReadCall(QueryRequest(text=text), 0.0)


def test_what_was_taken_back_comes_before_what_came_later() -> None:
    lanes, calls = Lanes(), [call(str(number)) for number in range(4)]
    for later in calls[2:]:
        lanes.add(later)
    lanes.put_back(calls[:2])
    assert list(lanes) == calls
    lanes.remove(calls[1])
    lanes.remove(calls[1])
    assert lanes.take_all() == [calls[0], *calls[2:]]
    assert not lanes


def test_a_text_that_ran_long_waits_among_the_long_ones_until_it_is_short_again() -> None:
    lanes, text = Lanes(), "ASK {}"
    lanes.learn(text, is_long=True)
    lanes.add(long := call(text))
    lanes.learn(text, is_long=False)
    lanes.add(short := call(text))
    lanes.add(dump := call(None))
    assert (list(lanes.long), list(lanes.short)) == ([long, dump], [short])


def test_so_many_are_remembered_the_last_ones() -> None:
    lanes = Lanes()
    for number in range(KNOWN):
        lanes.learn(str(number), is_long=True)
    lanes.learn("0", is_long=True)
    lanes.learn("new", is_long=True)
    assert [lanes.is_known(text) for text in ("0", "1", "2", "new")] == [True, False, True, True]

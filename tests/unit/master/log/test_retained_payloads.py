"""Which payloads stay, and which are no longer needed."""

from __future__ import annotations

from quadlog.master.log.retained_payloads import RetainedPayloads

SIX, SEVEN, EIGHT = ((bytes([number]) * 16, bytes([number]) * 32) for number in (6, 7, 8))


def test_a_cut_forgets_all_after_it_also_where_entries_were_held_twice() -> None:
    retained = RetainedPayloads([(6, SIX), (7, SEVEN), (8, EIGHT)])
    retained.add([(6, SIX)])
    retained.truncate(6)
    assert retained.release_up_to(8) == [SIX, SIX], "what was cut waits again, and its payload stays"

"""Tickets, which determine the questions that a reading process may begin.

A question waits in the pipe to its process until the process has answered the one before it.  Meanwhile the
worker may need it back.  Each question has a ticket, a number in a second pipe, which both sides read: the
process takes the ticket before it begins, the worker takes it to get the question back.  The kernel gives it
to only one of them.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import Final

_NUMBER: Final = struct.Struct("!I")

_MANY: Final = 64 * _NUMBER.size
"""More bytes than the pipe ever contains."""


class Tickets:
    """The worker's side of the second pipe."""

    def __init__(self) -> None:
        """Create the pipe.  Only the process may inherit its end `inlet`."""
        self.inlet, self._outlet = os.pipe()
        os.set_blocking(self.inlet, False)

    def issue(self, number: int) -> None:
        """Issue the ticket of a question; must be called before the question is sent."""
        os.write(self._outlet, _NUMBER.pack(number))

    def withdraw(self) -> set[int]:
        """Return the numbers of all questions that were not begun; they never will be.

        >>> tickets = Tickets()
        >>> tickets.issue(7)
        >>> tickets.withdraw(), TicketReader(tickets.inlet).admit(7)
        ({7}, False)
        >>> tickets.close()
        """
        with suppress(BlockingIOError):
            return {number for (number,) in _NUMBER.iter_unpack(os.read(self.inlet, _MANY))}
        return set()

    def close(self) -> None:
        """Close the pipe; no question may be asked afterwards."""
        os.close(self.inlet)
        os.close(self._outlet)


class TicketReader:
    """The process's side of the second pipe."""

    def __init__(self, inlet: int) -> None:
        """`inlet` is a file descriptor, see `Tickets`."""
        self._inlet = inlet
        self._taken = 0

    def admit(self, number: int) -> bool:
        """Return whether the question of this number may begin; questions must arrive in the order of their numbers.

        >>> tickets = Tickets()
        >>> reader = TicketReader(tickets.inlet)
        >>> tickets.issue(1), tickets.withdraw(), tickets.issue(2)
        (None, {1}, None)
        >>> [reader.admit(number) for number in (1, 2, 3)]
        [False, True, False]
        >>> tickets.close()
        """
        try:
            while self._taken < number:
                (self._taken,) = _NUMBER.unpack(os.read(self._inlet, _NUMBER.size))
        except BlockingIOError:  # the worker has taken the ticket
            return False
        return self._taken == number

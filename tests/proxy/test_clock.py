"""The order of a process's events holds whatever its machine's clock does."""

from __future__ import annotations

from itertools import pairwise

import pytest

from proxy.clock import OrderedClock


def test_a_clock_that_is_set_turns_no_order() -> None:
    """Back by an hour, forward by two, back again: as a machine's clock that is corrected."""
    hour, wall, monotonic = 3600.0, 1e9, 50.0
    clock = OrderedClock(lambda: wall, lambda: monotonic)
    read = [clock()]
    for jump in (0.0, -hour, 0.0, 2 * hour, 0.0, -hour, 0.0):
        monotonic += 1.0
        wall += 1.0 + jump
        read.append(clock())
    passed = [later - earlier for earlier, later in pairwise(read)]
    assert passed == pytest.approx([1.0, 1.0, 1.0, 1.0 + hour, 1.0, 1.0, 1.0])
    assert read[0] == pytest.approx(1e9)


def test_a_thread_that_is_held_up_between_two_clocks_moves_none() -> None:
    """The scheduler takes the processor away for a second after either is read."""
    for wall_s, monotonic_s in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        machine = Machine()
        clock = OrderedClock(machine.wall, machine.monotonic)
        machine.pauses = [wall_s, monotonic_s]
        clock()
        assert clock() - machine.wall() == pytest.approx(0.0, abs=1e-6)


class Machine:
    """Two clocks, and how long a thread waits after each time it read one."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._now = 0.0

    def wall(self) -> float:
        return 1e9 + self._read()

    def monotonic(self) -> float:
        return 50.0 + self._read()

    def _read(self) -> float:
        read = self._now
        self._now += self.pauses.pop(0) if self.pauses else 0.0
        return read

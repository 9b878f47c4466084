"""Who writes next to a file: the recorder before the others, and nobody twice."""

from __future__ import annotations

import threading

import pytest

from proxy.store.errors import DatabaseUnavailable
from proxy.store.sqlite import PriorityWriteLock
from tests.waiting import until

PATIENCE_S = 60.0


def test_the_first_waits_for_one_other_however_many_there_are() -> None:
    turns, order = PriorityWriteLock(), list[str]()

    def other(name: str) -> None:
        with turns.taken(PATIENCE_S):
            order.append(name)

    def first() -> None:
        turns.take_first(PATIENCE_S)
        order.append("first")
        turns.release()

    with turns.taken(PATIENCE_S):
        threads = [threading.Thread(target=other, args=(f"other {n}",)) for n in range(5)]
        threads.append(threading.Thread(target=first))
        for thread in threads:
            thread.start()
        until(turns._line.locked)  # where the first stands; the others wait before it
        assert order == []
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order[0] == "first"
    assert sorted(order[1:]) == [f"other {n}" for n in range(5)]


def test_who_passes_its_turn_on_has_it_again_after_the_first() -> None:
    turns, order = PriorityWriteLock(), list[str]()

    def first() -> None:
        turns.take_first(PATIENCE_S)
        order.append("first")
        turns.release()

    with turns.taken(PATIENCE_S):
        thread = threading.Thread(target=first)
        thread.start()
        until(turns._line.locked)
        turns.pass_on()
        order.append("other")
        turns.pass_on()  # nobody waits
        with pytest.raises(DatabaseUnavailable):
            turns.take_first(0.01)
    thread.join(PATIENCE_S)
    assert order == ["first", "other"]


def test_who_waits_too_long_is_told_and_takes_nothing_along() -> None:
    turns = PriorityWriteLock()
    with turns.taken(PATIENCE_S):
        with pytest.raises(DatabaseUnavailable, match="locked by this process"):
            turns.take_first(0.01)
        with pytest.raises(DatabaseUnavailable, match="locked"), turns.taken(0.01):
            pytest.fail("it is another's turn")
    turns.take_first(0.01)
    with pytest.raises(DatabaseUnavailable), turns.taken(0.01):
        pytest.fail("it is the first's turn")
    turns.release()
    with turns.taken(0.01):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    turns = PriorityWriteLock()
    with pytest.raises(ZeroDivisionError), turns.taken(0.01):
        raise ZeroDivisionError
    turns.take_first(0.01)

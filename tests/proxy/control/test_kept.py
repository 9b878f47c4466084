"""A value is kept for the state it is of, and of many keys the latest ones are."""

from __future__ import annotations

from proxy.control.queries import Kept


def test_a_value_is_kept_for_its_state_only() -> None:
    kept = Kept[str, int, str](2)
    assert kept.of("a", 1) is None
    kept.keep("a", 1, "one")
    assert kept.of("a", 1) == "one"
    assert kept.of("a", 2) is None
    kept.keep("a", 2, "two")
    assert (kept.of("a", 1), kept.of("a", 2)) == (None, "two")


def test_of_many_keys_the_oldest_is_forgotten() -> None:
    kept = Kept[str, int, str](2)
    for name in "abc":
        kept.keep(name, 1, name)
    assert [kept.of(name, 1) for name in "abc"] == [None, "b", "c"]

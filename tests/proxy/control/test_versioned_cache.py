"""A value is returned for its own version only, and the oldest keys go first."""

from __future__ import annotations

from proxy.control.queries import VersionedCache


def test_a_value_is_returned_for_its_version_only() -> None:
    cache = VersionedCache[str, int, str](2)
    assert cache.current("a", 1) is None
    cache.store("a", 1, "one")
    assert cache.current("a", 1) == "one"
    assert cache.current("a", 2) is None
    cache.store("a", 2, "two")
    assert (cache.current("a", 1), cache.current("a", 2)) == (None, "two")


def test_of_many_keys_the_oldest_is_dropped() -> None:
    cache = VersionedCache[str, int, str](2)
    for name in "abc":
        cache.store(name, 1, name)
    assert [cache.current(name, 1) for name in "abc"] == [None, "b", "c"]


def test_another_version_of_a_key_displaces_no_other_key() -> None:
    cache: VersionedCache[str, int, str] = VersionedCache(2)
    cache.store("hour", 1, "usual")
    for minute in range(3):
        cache.store("minute", minute, "read")
    assert cache.current("hour", 1) == "usual"

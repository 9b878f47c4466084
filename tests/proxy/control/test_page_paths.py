"""A page's path holds a name as one part, whatever is in it."""

from __future__ import annotations

from proxy.control.queries import path_of


def test_a_name_stays_one_part_of_its_path() -> None:
    assert path_of("rollouts", "a/b c") == "/ui/rollouts/a%2Fb%20c"
    assert path_of("batches", "x?tab=cost#é") == "/ui/batches/x%3Ftab%3Dcost%23%C3%A9"

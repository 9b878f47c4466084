"""What is done too often waits, and what was saved up may come at once."""

from __future__ import annotations

from proxy.control.allowance import Allowance


def test_it_is_saved_up_to_a_limit_and_comes_back_with_time() -> None:
    now = [100.0]
    allowance = Allowance(2.0, most=6, clock=lambda: now[0])
    assert allowance.left == 6
    allowance.use(7)
    assert allowance.left == 0
    allowance.use(-1)
    for passed_s, left in ((0.25, 0), (0.25, 1), (1.0, 3), (60.0, 6), (-60.0, 6), (1.0, 6)):
        now[0] += passed_s
        assert allowance.left == left, passed_s

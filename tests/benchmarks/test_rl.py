"""A policy that learns from masked groups learns what it would without outages: guides/rl.md."""

from __future__ import annotations

from statistics import fmean
from xml.etree import ElementTree as Xml

import pytest

from benchmarks import rl

NOISE = 0.025  # two standard errors of a success rate of 0.8 over a thousand tasks


@pytest.fixture(scope="module")
def learned() -> rl.Learned:
    return rl.learn()


def solved(learned: rl.Learned, name: str) -> list[float]:
    return [line[-1] for line in learned[name]]


def test_masked_groups_teach_what_clean_ones_do_and_zeros_do_not(learned: rl.Learned) -> None:
    clean, masked, zeros = (solved(learned, name) for name in rl.RUNS)
    assert abs(fmean(masked) - fmean(clean)) < NOISE
    assert fmean(zeros) < fmean(clean) - 5 * NOISE
    assert max(zeros) < min(masked)


def test_outages_cost_three_rollouts_in_ten_their_measurement_at_first() -> None:
    names: dict[str, object] = {}
    exec(rl.shown(), names)
    calls, outage = names["CALLS"], names["OUTAGE"]
    assert isinstance(calls, tuple)
    assert isinstance(outage, float)
    lost = [1 - (1 - outage) ** count for count in calls]
    assert fmean(lost) == pytest.approx(0.3, abs=1e-3)


def test_the_page_shows_these_very_numbers_and_this_picture(learned: rl.Learned) -> None:
    assert rl.table(learned) in (rl.DOCS / "rl.md").read_text()
    drawn = rl.picture(learned)
    assert (rl.DOCS / "rl.svg").read_text() == drawn, "run make rl"
    lines = Xml.fromstring(drawn).findall("{http://www.w3.org/2000/svg}path")
    assert [line.get("class") for line in lines] == ["clean", "masked", "zeros"]

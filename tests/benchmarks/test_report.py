"""docs/measurements/benchmarks.md and its picture: they say what was measured, and that alone."""

from __future__ import annotations

from benchmarks.report import PAGE, PICTURE, Results, drawing, page, published
from benchmarks.rows import Rounds

MACHINE = {"python": "CPython 3.11.2", "cores": 2, "peers": {"nginx": "1.22.1"}}
ROUNDS: Rounds = {
    "exchange": [
        {
            "truezero": {"cpu_us": 60.0, "per_s": 15000.0},
            "compiled": {"cpu_us": 110.0, "per_s": 9000.0},
            "nginx": {"cpu_us": 25.0, "per_s": 45000.0},
            "litellm": {"cpu_us": 7200.0, "per_s": 134.0},
        }
    ],
    "first_byte": [{"truezero": {"p50_ms": 0.4, "p99_ms": 4.0}, "direct": {"p50_ms": 0.2}}],
}


def results(rounds: Rounds = ROUNDS, **facts: object) -> Results:
    return Results(machine=MACHINE, rounds=rounds, **facts)  # type: ignore[arg-type]


def line(label: str, goal: str = "") -> str:
    """The page's first line with these words in it."""
    return next(each for each in page(results()).splitlines() if label in each and goal in each)


def test_the_page_in_docs_is_made_of_the_numbers_beside_it() -> None:
    latest, *others = published()
    assert PAGE.read_text() == page(latest, others), "run python -m benchmarks.report"
    assert PICTURE.read_text() == drawing(latest), "run python -m benchmarks.report"


def test_a_goal_that_was_missed_says_so() -> None:
    missed = {"exchange": [{"truezero": {"cpu_us": 51.0}, "nginx": {"cpu_us": 20.0}}]}
    assert "| ≤ 2.5 × nginx | **2.55** |" in page(results(missed))  # type: ignore[arg-type]


def test_an_unknown_number_is_no_zero() -> None:
    assert "ms to first byte p99 ≤ 0.6 ms more than direct;" in page(results())

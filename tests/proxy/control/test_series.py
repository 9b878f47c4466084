"""Batches of one series: told by names, and never by a model's version."""

from __future__ import annotations

from proxy.control.dashboard import series_of


def test_what_tells_one_run_from_the_next_is_left_out() -> None:
    for batch, series in (
        ("nightly-2026-11-21", "nightly"),
        ("swe/2026-11-21T02:30:00Z", "swe"),
        ("swe_20261121-0230", "swe"),
        ("ci-9f3c2ab", "ci"),
        ("nightly-2026-11-21-9f3c2ab0", "nightly"),
        ("swe-run-12", "swe-run"),
        ("run12", "run"),
        ("rl/step_000120", "rl/step"),
        ("nightly/7", "nightly"),
        ("eval#17", "eval"),
        ("x-1732270000", "x"),
        ("2026-11-21", ""),
    ):
        assert series_of(batch) == series, batch


def test_versions_and_sizes_of_models_are_not() -> None:
    for batch in (
        "swe-verified-gpt-5", "claude-sonnet-4-5", "qwen-72b", "gpt-4-0613", "tau-bench",
        "deadbeef", "gaia-nightly", "", "42",
    ):  # fmt: skip
        assert series_of(batch) == batch

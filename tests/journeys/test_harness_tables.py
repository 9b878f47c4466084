"""The tables of docs/measurements/integrations.md: what is the same stands there once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.journeys import harnesses
from tests.journeys.failing import Case
from tests.journeys.harnesses import PAGE


@pytest.mark.parametrize(
    "harness", ["maseval", "benchflow", "harbor", "inspect_ai", "mini_swe_agent", "verifiers"]
)
def test_every_failure_has_its_row(harness: str) -> None:
    _, _, rest = PAGE.read_text("utf-8").partition(f"<!-- {harness} -->\n")
    lines = rest.partition(f"<!-- /{harness} -->")[0].splitlines()[2:]
    named = [name for line in lines for name in re.split(", | \\|", line[2:])[: len(Case)]]
    assert [case for case in Case if case not in named] == []


def test_a_table_takes_its_place_and_is_compared_where_ci_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- one -->\n| a longer table |\n<!-- /one -->\n\nRest.\n")
    monkeypatch.setattr(harnesses, "PAGE", page)
    monkeypatch.setattr(harnesses, "CI", False)
    harnesses.put_on_page("one", lambda old: old.replace("a longer", "b"))
    put = "# Page\n\n<!-- one -->\n| b table |\n<!-- /one -->\n\nRest.\n"
    assert page.read_text() == put
    monkeypatch.setattr(harnesses, "CI", True)
    harnesses.put_on_page("one", lambda old: old)
    with pytest.raises(AssertionError, match="read what it changed"):
        harnesses.put_on_page("one", lambda _: "| c |")
    with pytest.raises(AssertionError, match="no place for two"):
        harnesses.put_on_page("two", lambda _: "| c |")
    assert page.read_text() == put

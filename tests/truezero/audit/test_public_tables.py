"""The tables of published runs, of records and sets of this test's own making."""

from __future__ import annotations

from pathlib import Path

from tests.truezero.audit.harnesses import dump
from tests.truezero.audit.public_runs import audits, judged
from tests.truezero.audit.public_tables import write
from tests.truezero.audit.test_public_runs import record

DEAD = "litellm.AuthenticationError: Invalid API key"
HELD = (
    record("false_zero.provider", 0.0, error=DEAD, tokens=0),
    record("false_zero.provider", 0.0, error="the disk is full", tokens=90),
    record("honest", 0.0, error="prompt is too long: 9 tokens > 8 maximum", tokens=90),
    record("honest", 0.0, error="pytest: api_key is not in the answer", tokens=91),
    record("undecidable", 0.0, error="timed out", tokens=None),
)


def test_the_page_gets_what_the_sets_hold_between_its_marks(tmp_path: Path) -> None:
    lost = {"id": "r-1", "task_name": "t", "mcp": "x", "execution_result": {
        "success": False, "error_message": DEAD}}  # fmt: skip
    dump(tmp_path / "sets" / "s" / "run-1" / "t" / "meta.json", lost)
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n<!-- measured -->\nold\n<!-- /measured -->\n\nfoot\n")
    write(judged(HELD), audits(HELD, tmp_path / "sets"), page)
    text = page.read_text()
    assert text.startswith("# Head\n\n<!-- measured -->\nMeasured on ")
    assert text.endswith("\n<!-- /measured -->\n\nfoot\n")
    assert "old" not in text
    assert (
        "| 1 zero: api_error [auth, permanent]: HTTP 401, by the run's own error | `run-1/t` |"
        in text
    )

"""`truezero batch`: what it says of a batch, and where its lists end."""

from __future__ import annotations

import pytest

from tests.truezero.models.test_batches import EMPTY
from truezero import models
from truezero.cli.batch import print_batch

LONG = {
    **EMPTY,
    "batch": "last night",
    "fingerprint": {f"openai/gpt-5:cause-{n:02}": 1 for n in range(14)},
    "retried_after_score": [f"again-{n:02}" for n in range(100)], "retried_after_score_total": 120,
    "retry": [{"rollout_id": f"r-{n:02}", "task": "t", "attempt": 0, "eligible": True,
               "reason": "transient", "after_s": None} for n in range(30)],
    "retry_total": 1250,
    "validity_across": [{"check": "model_substituted", "level": "suspect", "rollouts": 1, "of": 4,
                         "examples": ["d"], "sentence": f"way {n}"} for n in range(11)],
}  # fmt: skip


LANE = {
    "lane": "openai/gpt-5/k", "phase": "open", "fingerprint": "auth:401", "streak": 5,
    "tripped_by": [], "opened_at": 1.0, "retry_at": None, "threshold": 5, "canary": None,
}  # fmt: skip


@pytest.mark.parametrize("width", ["60", "100", None])
def test_lists_of_a_batch_have_ten_lines_and_say_how_to_get_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", width)
    lanes = models.Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": [LANE] * 12})
    print_batch(models.BatchSummary.model_validate(LONG), lanes)
    lines = capsys.readouterr().out.splitlines()
    whole = " ".join(" ".join(lines).split())
    for each, count in (
        ("run again: t (transient)", 10), ("again-", 10), ("cause-", 10),
        ("across rollouts: way", 10), ("breaker open on", 10),
    ):  # fmt: skip
        assert whole.count(each) == count, each
    assert "and 1,240 more: truezero rerun 'last night'" in lines
    assert "and 1 more: truezero batch --json 'last night'" in lines
    assert "and 2 more breakers" in lines
    assert "and 4 more (--json)" in whole
    assert "and 110 more (--json)" in whole
    assert len(lines) < 50, "only the terminal wraps lines"

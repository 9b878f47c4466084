"""Texts from elsewhere as commands print them: ids, errors and events."""

from __future__ import annotations

import pytest

from tests.truezero.cli.test_printed import CALL, CLOSED, FOUND, verdict
from tests.truezero.models.test_batches import EMPTY
from truezero import Event, models
from truezero.cli.batch import print_batch
from truezero.cli.check import print_check
from truezero.cli.verdict import print_verdict, verdict_line
from truezero.cli.watch import event_line

EVIL = "a\x1b]0;owned\x07\x9b2J\u202e[bold]b"


def test_nothing_from_elsewhere_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    named = verdict(
        rollout_id=EVIL, error=EVIL, lane=EVIL, fingerprint=EVIL, warnings=[EVIL], rule=EVIL
    )
    call = models.Exchange.model_validate(CALL | {"model": EVIL, "error_code": EVIL, "id": EVIL})
    found = {**FOUND, "sentence": EVIL, "level": "info"}
    named = named.model_copy(
        update={
            "validity": [models.ValidityFinding.model_validate(found)],
            "roles": {EVIL: models.RoleVerdict(health="healthy", rule=EVIL, error=EVIL)},
            "validity_coverage": {EVIL: models.Coverage(looked=0, of=1)},
        }
    )
    print_verdict(named, [call])
    summary = {**EMPTY, "batch": EVIL, "fingerprint": {EVIL: 1}, "retried_after_score": [EVIL]}
    print_batch(
        models.BatchSummary.model_validate(summary),
        models.Breaker(batch=EVIL, threshold=5, lanes=[]),
    )
    print_check(models.Check(batch=EVIL, valid=False, lines=[EVIL]), CLOSED)
    shown = capsys.readouterr().out
    shown += verdict_line(named, EVIL)
    shown += event_line(Event(id=1, kind=EVIL, data={"rollout_id": EVIL, "error": EVIL}))
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert "\\x1b]0;owned" in shown
    assert "[bold]b" in shown, "no markup either"


def test_a_name_in_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    print_check(models.Check(batch=":bug:", valid=False, lines=["fix :bug: (auth)"]), CLOSED)
    shown = capsys.readouterr().out
    assert shown.count(":bug:") == 2

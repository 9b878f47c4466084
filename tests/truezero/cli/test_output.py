"""Tables and lines for people: what they say of a verdict, a batch and an event."""

from __future__ import annotations

import pytest

from tests.truezero.cli.test_verdict import CALL, FOUND, verdict
from tests.truezero.models.test_batches import EMPTY
from truezero import Event, models
from truezero.cli import output
from truezero.cli.verdict import print_verdict, verdict_line


def test_a_batch_counts_what_was_found_and_what_its_sums_stand_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    summary = {
        **EMPTY, "calls": 8, "tokens_known_calls": 7, "cost_known_calls": 0, "total_tokens": 3,
        "input_tokens": 1, "output_tokens": 2, "validity": {"suspect": 2, "invalid": 1},
        "validity_checks": {"starved": 2, "engine_aborted": 1},
        "validity_across": [{
            "check": "model_substituted", "level": "suspect", "rollouts": 1, "of": 4,
            "examples": ["d"], "sentence": "gpt-5 was asked for; [x] answered",
        }],
    }  # fmt: skip
    breaker = models.Breaker(batch="b", threshold=0, lanes=[])
    output.print_batch(models.BatchSummary.model_validate(summary), breaker)
    printed = capsys.readouterr().out
    assert "2 suspect, 1 invalid (2 starved, 1 engine_aborted)" in printed
    assert "1 in, 2 out (1 of 8 calls without counts)" in printed
    assert "unknown (8 of 8 calls without a price)" in printed
    assert (
        "suspect across rollouts: gpt-5 was asked for; [x] answered (model_substituted)\n"
    ) in printed
    known = {**summary, "calls": 7, "cost_known_calls": 7, "cost_usd": 0.5, "validity": {}}
    output.print_batch(models.BatchSummary.model_validate(known), breaker)
    printed = capsys.readouterr().out
    assert "time" not in printed
    output.print_batch(
        models.BatchSummary.model_validate({**known, "lost_s": 0.5, "held_s": 1234.56}), breaker
    )
    assert "0.5 s lost to failures, 1,234.6 s waiting at the proxy" in capsys.readouterr().out
    assert "without" not in printed
    assert "validity" not in printed


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
    output.print_batch(models.BatchSummary.model_validate(LONG), lanes)
    lines = capsys.readouterr().out.splitlines()
    whole = " ".join(" ".join(lines).split())
    for each, count in (
        ("run again: r-", 10), ("again-", 10), ("cause-", 10), ("across rollouts: way", 10),
        ("breaker open on", 10),
    ):  # fmt: skip
        assert whole.count(each) == count, each
    assert "and 1,240 more: truezero rerun 'last night'" in lines
    assert "and 1 more: truezero batch --json 'last night'" in lines
    assert "and 2 more breakers" in lines
    assert "and 4 more (--json)" in whole
    assert "and 110 more (--json)" in whole
    assert len(lines) < 50, "only the terminal wraps lines"


def test_an_event_names_what_was_found() -> None:
    data = {"rollout_id": "r", "health": "healthy", "validity": "suspect",
            "validity_checks": ["starved"]}  # fmt: skip
    line = output.event_line(Event(id=1, kind="verdict_given", data=data))
    assert line == "verdict given · r · healthy · suspect · starved"


def test_a_check_is_printed_with_its_objections(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_check(models.Check(batch="b[1]", valid=False, lines=["t: [no] model"]), CLOSED)
    assert capsys.readouterr().out == "t: [no] model\nb[1]: not a valid measurement\n"
    output.print_check(
        models.Check(batch="b", valid=False, lines=["one"], lines_total=1201), CLOSED
    )
    assert capsys.readouterr().out == "one\nand 1,200 more rollouts\nb: not a valid measurement\n"
    tested = models.Check(
        batch="b", valid=True, lines=[], exclusion_bias=False, exclusion_p=0.4,
        exclusion_fisher_p=1e-4,
    )  # fmt: skip
    output.print_check(tested, CLOSED)
    assert capsys.readouterr().out == (
        "Exclusions strike tasks as chance would (p = 0.4).\nb: valid\n"
    )


def test_a_check_names_the_breakers_that_are_open(capsys: pytest.CaptureFixture[str]) -> None:
    lanes = [LANE, {**LANE, "lane": "openai/gpt-5/other", "phase": "closed"}]
    breaker = models.Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": lanes})
    output.print_check(models.Check(batch="b", valid=False, lines=["one"]), breaker)
    assert capsys.readouterr().out.splitlines() == [
        "one",
        (
            "breaker open on openai/gpt-5/k: 5 rollouts in a row failed with auth:401; "
            "fix it, then POST /batches/b/breaker/reset"
        ),
        "b: not a valid measurement",
    ]


def test_what_is_watched_says_what_it_waits_for() -> None:
    busy = models.BatchSummary.model_validate({**EMPTY, "pending": 2})
    assert output.waiting_line(busy).startswith("waiting for 2 running rollouts to end;")
    idle = models.BatchSummary.model_validate({**EMPTY, "pending": 0})
    assert "waiting for the next one to begin; Ctrl-C" in output.waiting_line(idle)


def test_a_live_table_follows_the_events_without_asking_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now, loaded = [0.0], [0]

    def load() -> tuple[models.BatchSummary, models.Breaker]:
        loaded[0] += 1
        summary = models.BatchSummary.model_validate({**EMPTY, "valid": True})
        return summary, models.Breaker(batch="b", threshold=0, lanes=[])

    with output.live_batch(load, clock=lambda: now[0]) as follow:
        follow(event("exchange_failed"))
        follow(event("verdict_given"))
        assert loaded == [1], "a second has not gone by"
        now[0] = 1.5
        follow(event("alive"))
        assert loaded == [2], "there was news"
        now[0] = 3.0
        follow(event("alive"))
        assert loaded == [2], "there was none"
    printed = capsys.readouterr().out
    assert "valid" in printed
    assert "verdict given · r[1] · api_error · auth:401" in printed


def event(kind: str) -> Event:
    data = {"rollout_id": "r[1]", "health": "api_error", "fingerprint": "auth:401"}
    return Event(id=1, kind=kind, data=data)


CLOSED = models.Breaker(batch="b", threshold=5, lanes=[])
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
    output.print_batch(
        models.BatchSummary.model_validate(summary),
        models.Breaker(batch=EVIL, threshold=5, lanes=[]),
    )
    output.print_check(models.Check(batch=EVIL, valid=False, lines=[EVIL]), CLOSED)
    shown = capsys.readouterr().out
    shown += verdict_line(named, EVIL)
    shown += output.event_line(Event(id=1, kind=EVIL, data={"rollout_id": EVIL, "error": EVIL}))
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert "\\x1b]0;owned" in shown
    assert "[bold]b" in shown, "no markup either"

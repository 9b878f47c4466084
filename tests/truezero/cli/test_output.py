"""Tables and lines for people: what they say of a verdict, a batch and an event."""

from __future__ import annotations

from typing import Any

import pytest

from classifier import codec
from tests.builders import exchange
from tests.truezero.models.test_batches import EMPTY
from tests.truezero.sdk.test_client import VERDICT
from truezero import Event, models
from truezero.cli import output


def verdict(**fields: Any) -> models.Verdict:
    return models.Verdict.model_validate({**VERDICT, **fields})


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "a/b: healthy (1 call)"),
        ({"recovered_requests": 1}, "a/b: healthy (1 failed call, recovered) (1 call)"),
        ({"recovered_requests": 2}, "a/b: healthy (2 failed calls, recovered) (1 call)"),
        (
            {"total_tokens": 5, "input_tokens": 3, "output_tokens": 2, "cost_usd": 0.5},
            "a/b: healthy (1 call, 3 in, 2 out, $0.5000)",
        ),
        (
            {"health": "api_error", "error": "api_error [auth]: HTTP 401"},
            "a/b: api_error [auth]: HTTP 401 (1 call)",
        ),
        (
            {"scoreable": "unknown"},
            "a/b: healthy (it is not known whether its score counts) (1 call)",
        ),
        (
            {"scoreable": "no", "excluded_by": ["max_steps", "starved"]},
            "a/b: healthy (its score does not count: max_steps, starved) (1 call)",
        ),
        ({"scoreable": "no"}, "a/b: healthy (its score does not count: by the policy) (1 call)"),
        ({"health": "undecided", "rule": "gaps"}, "a/b: undecided (gaps) (1 call)"),
    ],
)
def test_a_verdict_is_one_plain_line(fields: dict[str, Any], line: str) -> None:
    assert output.verdict_line(verdict(**fields)) == line


FOUND = {
    "check": "engine_aborted", "level": "invalid", "calls": 1, "of": 14, "evidence": ["x2"],
    "sentence": "the engine aborted [1] of 14 answers",
}  # fmt: skip


def test_a_verdict_shows_findings_roles_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    judge = {
        "health": "api_error", "rule": "all_failed", "subcategory": "quota",
        "error": "HTTP 429 on 2 of 2 calls",
    }  # fmt: skip
    told = verdict(
        validity=[FOUND],
        roles={"judge": judge, "user": {"health": "healthy", "rule": "healthy"}},
        provider_s=12.44, lost_s=0.5, agent_s=None, evidence=["x1"],
        validity_coverage={"engine_aborted": {"looked": 14, "of": 14},
                           "prompt_truncated": {"looked": 3, "of": 14}},
    )  # fmt: skip
    calls = [models.Exchange.model_validate(CALL | {"id": name}) for name in ("x1", "x2", "x3")]
    output.print_verdict(told, calls)
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert "invalid engine_aborted: the engine aborted [1] of 14 answers (1 of 14 calls)" in lines
    assert "role judge: api_error (quota HTTP 429 on 2 of 2 calls)" in lines
    assert "role user: healthy (0 of 0 calls failed)" in lines
    assert "12.4 s waiting for answers, 0.5 s lost to failures" in printed
    assert "prompt_truncated (11 of 14 calls)" in printed
    marks = {line.split()[0]: line.split()[-1] for line in lines if line.startswith("x")}
    assert (marks["x1"], marks["x2"]) == ("evidence", "engine_aborted")
    output.print_verdict(verdict(health="undecided", evidence=["x1"]), calls[:1])
    assert "evidence" not in capsys.readouterr().out


def test_a_verdict_names_the_calls_that_prove_it(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [models.Exchange.model_validate(CALL | {"id": f"x{n}"}) for n in range(9)]
    seen = {"source": "wire", "first": "x1", "last": "x8"}
    output.print_verdict(verdict(proof=seen, evidence=["x8"]), calls)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["proof", "call", "x1", "and", "x8"] for line in lines)
    marked = {line.split()[0]: line for line in lines if line.startswith("x")}
    assert marked["x1"].rstrip().endswith(" proof")
    assert marked["x8"].rstrip().endswith(" evidence, proof")
    output.print_verdict(verdict(proof={**seen, "last": "x1"}), calls)
    once = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["proof", "call", "x1"] for line in once)
    output.print_verdict(verdict(proof={"source": "reported"}), calls)
    assert "proof" in (printed := capsys.readouterr().out)
    assert "reported by the runner, not seen in a call" in printed
    output.print_verdict(verdict(proof=None), calls)
    assert "proof" not in capsys.readouterr().out


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
    assert "without" not in printed
    assert "beside health" not in printed


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
    table = lines[: next(n for n, line in enumerate(lines) if line.startswith("breaker"))]
    assert max(map(len, table)) <= int(width or 10_000)


def test_an_event_names_what_was_found() -> None:
    data = {"rollout_id": "r", "health": "healthy", "validity": "suspect",
            "validity_checks": ["starved"]}  # fmt: skip
    line = output.event_line(Event(id=1, kind="verdict_given", data=data))
    assert line == "verdict given · r · healthy · suspect · starved"


def test_the_runners_error_explains_what_was_not_judged() -> None:
    line = output.verdict_line(verdict(health="not_judged"), "setup broke")
    assert line == "a/b: not_judged: setup broke (1 call)"


def test_markup_in_an_error_is_text() -> None:
    line = output.headline(verdict(health="api_error", error="api_error [auth]: HTTP 401"))
    assert line == "[red]api_error[/red] \\[auth]: HTTP 401"


def test_a_check_is_printed_with_its_objections(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_check(models.Check(batch="b[1]", valid=False, lines=["t: [no] model"]))
    assert capsys.readouterr().out == "t: [no] model\nb[1]: not a valid measurement\n"
    output.print_check(models.Check(batch="b", valid=False, lines=["one"], lines_total=1201))
    assert capsys.readouterr().out == "one\nand 1,200 more rollouts\nb: not a valid measurement\n"
    tested = models.Check(
        batch="b", valid=True, lines=[], exclusion_bias=False, exclusion_p=0.4,
        exclusion_fisher_p=1e-4,
    )  # fmt: skip
    output.print_check(tested)
    assert capsys.readouterr().out == (
        "Exclusions strike tasks as chance would (p = 0.4).\nb: valid\n"
    )


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


CALL = codec.encode_exchange(exchange(429))
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
    output.print_verdict(named, [call])
    summary = {**EMPTY, "batch": EVIL, "fingerprint": {EVIL: 1}, "retried_after_score": [EVIL]}
    output.print_batch(
        models.BatchSummary.model_validate(summary),
        models.Breaker(batch=EVIL, threshold=5, lanes=[]),
    )
    output.print_check(models.Check(batch=EVIL, valid=False, lines=[EVIL]))
    shown = capsys.readouterr().out
    shown += output.verdict_line(named, EVIL)
    shown += output.event_line(Event(id=1, kind=EVIL, data={"rollout_id": EVIL, "error": EVIL}))
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert "\\x1b]0;owned" in shown
    assert "[bold]b" in shown, "no markup either"

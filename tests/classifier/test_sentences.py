"""A verdict's sentence: does it count, why, whose, what next; one row for each kind of verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from classifier import EVIDENCE, SEED, judge, result
from classifier.codec import decode_verdict, encode_result, encode_verdict
from classifier.records import Exchange, RolloutRecord
from classifier.rules import RULES
from classifier.sentences import sentence, told
from classifier.verdicts import AttributedTo, Health, Retry, Subcategory, Verdict
from tests.builders import asked, limit_reached, rollout
from tests.classifier.truth import TABLE
from tests.golden import UPDATING
from tests.tables import lines

FILE = Path(__file__).with_name("sentences.jsonl")
ROWS = lines(FILE)
POLICIES = ("trusted", "untrusted", "seed")
Kind = tuple[str, str, str | None, str, bool]


def record_of(row: dict[str, Any]) -> RolloutRecord:
    """Build a row's rollout: calls, what is said of it, a limit, and reference series."""
    said = dict(row.get("said", {}))
    if "fallbacks" in said:
        said["fallbacks"] = tuple(said["fallbacks"])
    seen = rollout(row["calls"], **said)
    if "limit" in row:
        seen = replace(seen, limit_reached=limit_reached(**row["limit"]))
    if row["policy"] != "seed":
        seen = replace(seen, agents=row["policy"])
    if "cause" in row:
        calls = seen.exchanges
        seen = replace(seen, exchanges=tuple(_caused(x, row["cause"]) for x in calls))
    return asked(seen, row["series"]) if "series" in row else seen


def _caused(call: Exchange, rule: str) -> Exchange:
    return replace(call, cause=call.cause and replace(call.cause, rule=rule))


def verdict_of(row: dict[str, Any]) -> Verdict:
    return judge(record_of(row), policy=SEED if row["policy"] == "seed" else EVIDENCE)


def kind_of(policy: str, verdict: Verdict) -> Kind:
    whose = verdict.attributed_to and verdict.attributed_to.value
    return verdict.rule, policy, whose, verdict.scoreable, verdict.provisional


def test_each_kind_of_verdict_has_its_sentence() -> None:
    verdicts = [verdict_of(row) for row in ROWS]
    if UPDATING:
        for row, verdict in zip(ROWS, verdicts, strict=True):
            row["kind"], row["sentence"] = kind_of(row["policy"], verdict), verdict.sentence
        FILE.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), "utf-8")
    for row, verdict in zip(ROWS, verdicts, strict=True):
        assert [*kind_of(row["policy"], verdict)] == [*row["kind"]], row
        assert verdict.sentence == row["sentence"]


def test_no_kind_of_verdict_is_without_a_row() -> None:
    rows = {tuple(row["kind"]) for row in ROWS}
    for each, policy in product(TABLE, POLICIES):
        seen = each.rollout
        if policy == "seed":
            verdict = each.verdict(SEED)
        elif policy == "trusted" and seen.agents is None:
            verdict = each.verdict()
        else:
            verdict = judge(replace(seen, agents=policy))
        assert kind_of(policy, verdict) in rows, str(each)
    names = {rule.__name__.strip("_") for rule in RULES} | {"healthy"}
    assert {rule for rule, *_ in rows} == names
    whose = {None, *(each.value for each in AttributedTo)}
    assert {kind[2] for kind in rows} == whose
    assert {kind[3] for kind in rows} == {"yes", "no", "unknown"}


_RULES = {
    Health.HEALTHY: ("healthy", "own_failures"),
    Health.API_ERROR: ("all_failed", "main_model_failed", "interrupted"),
    Health.SUSPECTED_API_ERROR: (
        "zero_signal", "unread_answers", "empty_answers", "never_answered",
        "unexplained_rejections",
    ),
    Health.NOT_JUDGED: ("not_judged",),
    Health.UNDECIDED: ("undecided",),
}  # fmt: skip
_BEGINS = {
    "yes": ("counts: ", "counts so far: "),
    "no": ("does not count: ", "does not count so far: "),
    "unknown": ("not known if it counts: ", "not known yet if it counts: "),
}


def test_a_sentence_begins_with_does_it_count_whatever_meets() -> None:
    """Rule x attribution x scoreable x final, also what no rollout has been seen with."""
    for health, whose, scoreable, provisional in product(
        Health, (None, *AttributedTo), _BEGINS, (False, True)
    ):
        for rule in _RULES[health]:
            verdict = Verdict(
                rollout_id="r", batch=None, health=health, rule=rule, policy="evidence",
                attributed_to=whose, scoreable=scoreable, provisional=provisional,
                subcategory=Subcategory.AUTH if health is Health.API_ERROR else None,
            )  # fmt: skip
            said = sentence(verdict)
            begins = _BEGINS[scoreable][provisional]
            assert said.startswith("no model answered: " if rule == "own_failures" else begins)
            assert "None" not in said
            assert not said.endswith((" ", ".", ";", ":"))


def test_no_text_of_a_provider_a_prompt_or_a_key_is_in_a_sentence() -> None:
    hidden = "sk-secret"
    for row in ROWS:
        seen = record_of(row)
        calls = tuple(
            replace(
                x,
                cause=x.cause and replace(x.cause, code=hidden, rule=hidden),
                key_digest=hidden, provider_request_id=hidden, request_digest=hidden,
                response_digest=hidden, selector_digest=hidden, finish_reason=hidden,
            )
            for x in seen.exchanges
        )  # fmt: skip
        told_by_runner = seen.outcome and replace(
            seen.outcome,
            error=seen.outcome.error and hidden,
            verifier_error=hidden,
            eval={"text": hidden},
        )
        policy = SEED if row["policy"] == "seed" else EVIDENCE
        verdict = judge(replace(seen, exchanges=calls, outcome=told_by_runner), policy=policy)
        assert verdict.sentence is not None
        assert hidden not in verdict.sentence


def test_advice_changes_the_end_of_a_sentence() -> None:
    verdict = judge(rollout("429"))
    used = Retry(eligible=False, after_s=None, reason="transient, but all 2 retries are used")
    assert sentence(replace(verdict, retry=used)).endswith("; all 2 retries are used")


def test_a_result_has_its_verdicts_sentence() -> None:
    seen = rollout("401*3")
    verdict = judge(seen)
    assert encode_result(result(seen, verdict))["sentence"] == verdict.sentence


def test_a_verdict_of_an_earlier_release_is_told_by_what_is_stored_of_it() -> None:
    for row in ROWS:
        verdict = verdict_of(row)
        stored = decode_verdict({**encode_verdict(verdict), "sentence": None})
        share = verdict.answered or (0, 0)
        known = (verdict.sentence or "").replace(
            f"the model answered {share[0]} of {share[1]} call{'' if share[1] == 1 else 's'}",
            "the model answered",
        )
        assert told(stored) == known

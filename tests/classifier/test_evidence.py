"""The evidence that the rules read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier import EVIDENCE, Subcategory, judge
from classifier.evidence import Evidence, MainLane, Strength, UnresolvedFailures, ids, main_lane_of
from classifier.logical_calls import CallState, calls_of, counted
from classifier.rules import RULES, own_failures
from classifier.verdicts import OWN_FAILURES
from tests.builders import calls, cause, rollout
from tests.classifier.truth import SEQUENCES, TABLE
from tests.opcodes import opcodes
from tests.tables import each


def test_the_evidence_is_the_same_in_whatever_order_records_arrive() -> None:
    text = rollout("429 200 503 200+side")
    other = replace(text, exchanges=text.exchanges[::-1])
    one, two = Evidence.of(text, EVIDENCE), Evidence.of(other, EVIDENCE)
    assert (one.exchanges, one.calls, one.main) == (two.exchanges, two.calls, two.main)


def test_the_states_are_those_of_the_calls() -> None:
    facts = Evidence.of(rollout("429 200"), EVIDENCE)
    assert facts.states == {CallState.FAILED, CallState.ANSWERED}
    assert facts.any(CallState.FAILED)
    assert not facts.any(CallState.LOST, CallState.PENDING)
    assert [exchange.status for exchange in facts.failures] == [429]
    assert [exchange.status for exchange in facts.answers] == [200]


# --- The rules and what they find -----------------------------------------------------------------


def test_ids_keep_the_order_of_the_exchanges() -> None:
    assert ids(calls("429 200 401")) == ("x0", "x1", "x2")


def test_the_first_rule_that_fires_gives_the_verdict() -> None:
    fired = set()
    for row in (*TABLE, *SEQUENCES):
        seen = row.rollout
        facts = Evidence.of(seen, EVIDENCE)
        if row.evidence == OWN_FAILURES:  # its failures take no reward away: it stands on those
            own = own_failures(replace(facts, kept=True))
            assert (own and own.rule) == row.verdict().rule == OWN_FAILURES, str(row)
            assert own_failures(facts) is None
            fired.add(OWN_FAILURES)
            continue
        found = [finding.rule for rule in RULES if (finding := rule(facts)) is not None]
        proven = facts.proof is not None or facts.exempt
        last = "healthy" if proven else "undecided"
        assert row.verdict().rule == (found[0] if found else last), str(row)
        fired |= set(found)
    assert fired == {rule.__name__.strip("_") for rule in RULES}


# --- Which calls are to the model under test ------------------------------------------------------


def lane(text: str, **said: Any) -> MainLane:
    seen = rollout(text, **said)
    return main_lane_of(calls_of(counted(seen.exchanges)), seen)


def asked(text: str, **said: Any) -> list[str | None]:
    return [call.asked.model for call in lane(text, **said).calls]


def test_the_registered_model_is_found_under_each_of_its_names() -> None:
    for model, text in (
        ("o5", "200@o4*3 401@o5"),
        ("openai/o5", "200@o4*3 401@O5"),
        ("o5", "200@o4*3 401@o5-2026-01-31"),
        ("o5-2026-01-31", "200@o4*3 401@o5"),
        ("claude-opus-4", "200@o4*3 401@eu.anthropic.claude-opus-4-20250514-v1:0"),
        ("qwen3", "200@o4*3 401@qwen3:32b"),
        ("qwen3:32b", "200@o4*3 401@qwen3"),
        ("o5", "200@o4*3 401@house 200@house>o5-2026-01-31"),
    ):
        found = lane(text, model=model)
        assert (found.bound, found.unseen) == (True, False), text
        assert [call.asked.model for call in found.calls] == [
            x.model for x in rollout(text).exchanges if x.model != "o4"
        ], text


def test_equal_names_are_taken_together() -> None:
    assert asked("200@gpt-5 200@openai/gpt-5 200@gpt-5-2025-08-07 200@gpt-5-mini") == [
        "gpt-5",
        "openai/gpt-5",
        "gpt-5-2025-08-07",
    ]


def test_an_exact_size_is_not_taken_for_another() -> None:
    assert asked("200@qwen3:4b*3 503@qwen3:32b", model="qwen3:32b") == ["qwen3:32b"]


def test_a_registered_model_that_no_call_named_binds_nothing() -> None:
    found = lane("200@o4 404+side", model="o5")
    assert (found.bound, found.unseen) == (False, True)
    assert found.calls == lane("200@o4 404+side").calls


def test_without_calls_or_readable_names_nothing_is_known_to_be_unseen() -> None:
    assert lane("", model="o5") == MainLane(())
    seen = rollout("200", model="o5")
    nameless = tuple(call._replace(model=None) for call in calls_of(counted(seen.exchanges)))
    assert main_lane_of(nameless, seen).unseen is False


@each(
    "text, registered, to_it",
    [
        ("200+tool 401+huge*2", "gpt-5", 3),
        ("200+tool 401+huge*2", None, 3),
        ("200+tool 401+huge%groq", None, 1),
        ("200+tool 503+huge+shaped", None, 1),
        ("200+tool 200+huge>gpt-5", None, 2),
        ("200+tool 200+huge>gpt-5-mini", None, 1),
    ],
)
def test_a_request_too_long_for_its_model_to_be_read_counts_where_it_was_sent(
    text: str, registered: str | None, to_it: int
) -> None:
    assert len(lane(text, model=registered).calls) == to_it


def test_declared_fallbacks_are_part_of_it() -> None:
    fallbacks = {"model": "a", "fallbacks": ("provider/B", "never")}
    found = lane("200@a 200@b-2026-01-31 200@c", **fallbacks)
    assert ([call.asked.model for call in found.calls], found.bound) == (
        ["a", "b-2026-01-31"],
        True,
    )
    assert lane("200@b", **fallbacks).unseen is False
    assert lane("200@c", **fallbacks).unseen is True


def test_a_registered_upstream_binds_where_any_call_went_there() -> None:
    found = lane("503%openai 200%azure", upstream="openai")
    assert ([call.asked.upstream for call in found.calls], found.bound) == (["openai"], True)
    other = lane("503%openai 200%azure", upstream="groq")
    assert (len(other.calls), other.bound) == (2, False)


def test_model_and_upstream_bind_together() -> None:
    found = lane("200@o4%openai 503@o5%openai 200@o5%azure", model="o5", upstream="openai")
    assert [(call.asked.model, call.asked.upstream) for call in found.calls] == [("o5", "openai")]


# --- What was left failed, and what makes a failure good ------------------------------------------


def tail(text: str) -> UnresolvedFailures:
    return Evidence.of(rollout(text), EVIDENCE).tail


def left(text: str) -> list[str]:
    return [call.last.id for call in tail(text).calls]


def test_causes_are_ordered_by_how_much_they_prove() -> None:
    rejected = Subcategory.REJECTED_REQUEST
    assert Strength.of(cause(rejected, reason="malformed")) is Strength.EXPLAINED
    assert Strength.of(cause(rejected)) is Strength.UNEXPLAINED
    for subcategory in Subcategory:
        if subcategory is not rejected:
            strength = Strength.TRANSIENT if subcategory.transient else Strength.PERMANENT
            assert Strength.of(cause(subcategory)) is strength, subcategory
    assert Strength.of(cause(Subcategory.QUOTA, transient=True)) is Strength.TRANSIENT
    assert sorted(Strength) == [*Strength]


def test_the_strongest_cause_names_the_tail_in_whatever_order() -> None:
    for text, strength, statuses in (
        ("200+tool 400+malformed", Strength.EXPLAINED, [400]),
        ("200+tool 400 400+malformed", Strength.UNEXPLAINED, [400]),
        ("200+tool 400+malformed 400", Strength.UNEXPLAINED, [400]),
        ("200+tool 503 400", Strength.TRANSIENT, [503]),
        ("200+tool 503 429+quota 503", Strength.PERMANENT, [429]),
        ("200+tool 503 401 429+quota 400", Strength.PERMANENT, [401, 429]),
    ):
        found = tail(text)
        assert (found.strength, [x.status for x in found.strongest]) == (strength, statuses), text
    assert tail("200+tool") == UnresolvedFailures()


def test_an_answer_that_began_after_a_failure_makes_it_good() -> None:
    assert left("503 200") == []
    assert left("503+large 200+small+toolless") == []
    assert left("200 503") == ["x1"]


def test_an_overlapping_answer_must_be_of_the_same_conversation() -> None:
    failed = "200+tool[0-1] 503[2-9] "
    for answer, excused in (
        ("200[3-5]", True),
        ("200+large[3-5]", True),
        ("200+large[8-20]", True),
        ("200+small[3-5]", False),  # fewer bytes
        ("200+toolless[3-5]", False),  # no tools
        ("200+toolless[3-20]", False),
        ("200+large[1-5]", False),  # began earlier
        ("200+small[9-10]", True),  # no overlap
    ):
        assert (left(failed + answer) == []) is excused, answer


def test_where_no_call_offers_tools_none_is_needed() -> None:
    assert left("200+toolless[0-1] 503+toolless[2-9] 200+toolless[3-5]") == []


def test_the_same_request_answered_meanwhile_is_the_same_answer() -> None:
    assert left("200[0-5] 429+again[1-2]") == []
    assert left("200[0-1] 429+again[2-3]") == ["x1"]


def test_a_call_without_tools_after_a_final_answer_is_a_recap() -> None:
    for text, expected in (
        ("200+tool 200 503+toolless", []),
        ("200+tool 200+refusal 503+toolless", []),
        ("200+tool 503+toolless", ["x1"]),
        ("200+tool 200+length 503+toolless", ["x2"]),
        ("200+tool 200+thought 503+toolless", ["x2"]),
        ("200+tool 200+unread 503+toolless", ["x2"]),
        ("200+toolless 503+toolless", ["x1"]),
        ("200+tool 200 503+toolless 503", ["x3"]),
    ):
        assert left(text) == expected, text


def test_another_model_continues_only_what_ended_before_it_began() -> None:
    for answer, continued in (
        ("200+tool@mini[9-12]", True),
        ("200+tool+small@mini[9-12]", True),
        ("200+tool+small@mini[8-12]", False),
        ("200+toolless@mini[9-12]", False),
    ):
        found = tail("200+tool@big[0-2] 200+tool@big[2-4] 503@big[4-9] " + answer)
        assert (found.continued, len(found.calls)) == (continued, 1), answer


@pytest.mark.parametrize("calls", [8, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "text",
    [
        "200+tool*{}",
        "429*{}",
        "200+tool 503*{}",
        "left*{}",
        "200+thought*{}",
        "200+tool 400*{}",
        "200+tool*{0} 503[0-9999]*{0} 200+small[1-9999]*{0}",
        "200+tool@a*{0} 503@a*{0} 200+tool@b[1-9999]*{0}",
        "200+queued 200+polled*{}",
        "503 503^1*{}",
    ],
)
def test_four_times_the_calls_are_four_times_the_work(text: str, calls: int) -> None:
    small, large = rollout(text.format(calls)), rollout(text.format(4 * calls))
    judge(large)
    assert opcodes(lambda: judge(large)) < 4.4 * opcodes(lambda: judge(small))

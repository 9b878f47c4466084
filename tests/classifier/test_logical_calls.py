"""Which calls count, and in which order."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from classifier import judge
from classifier.logical_calls import (
    CallState,
    calls_of,
    canonical,
    counted,
    cut_short,
    has_content,
    proven_empty,
    refused,
    unsized,
    with_continuations,
)
from classifier.records import Exchange, Timing, Usage
from tests.builders import calls, exchange, rollout


def _during(exchange: Exchange, start: float, end: float) -> Exchange:
    return replace(exchange, timing=Timing(started_at=start, duration_s=end - start))


def test_calls_stand_in_the_order_of_their_ends() -> None:
    failed, answered = rollout("500 200").exchanges
    slow, quick = _during(failed, 0.0, 10.0), _during(answered, 1.0, 2.0)
    assert counted([slow, quick]) == [quick, slow]


def test_a_failure_that_outlasts_an_answer_is_not_made_good_by_it() -> None:
    seen = rollout("500 200")
    failed, answered = seen.exchanges
    slow, quick = _during(failed, 0.0, 10.0), _during(answered, 1.0, 2.0)
    assert judge(replace(seen, exchanges=(slow, quick))).recovered_requests == 0
    before = _during(failed, 0.0, 0.5)
    assert judge(replace(seen, exchanges=(before, quick))).recovered_requests == 1


def test_finish_reasons_are_read_in_every_providers_spelling() -> None:
    for reason, cut, refusal, empty in (
        ("stop", False, False, True),
        ("STOP", False, False, True),
        (None, False, False, True),
        ("length", True, False, False),
        ("MAX_TOKENS", True, False, False),
        ("incomplete:max_output_tokens", True, False, False),
        ("incomplete:content_filter", False, True, False),
        ("SAFETY", False, True, False),
        ("MALFORMED_FUNCTION_CALL", False, False, False),
    ):
        mute = exchange(output_seen=False, finish_reason=reason)
        assert (cut_short(mute), refused(mute), proven_empty(mute)) == (cut, refusal, empty), reason


def test_reasoning_is_no_content_where_it_is_told_apart() -> None:
    for text, content, empty in (
        ("200", True, False),
        ("200+tool", True, False),
        ("200+empty", False, True),
        ("200+thought", False, True),
        ("200+reasoned", False, True),
        ("200+unread", None, False),
    ):
        (answer,) = calls(text)
        assert (has_content(answer), proven_empty(answer)) == (content, empty), text
    assert proven_empty(exchange(output_seen=True)) is False  # recorded by the first release


def test_what_could_not_be_read_is_empty_only_where_no_token_was_counted() -> None:
    for tokens, empty in ((0, True), (3, False), (None, False)):
        unread = exchange(output_seen=None, usage=Usage(output_tokens=tokens))
        assert has_content(unread) is None
        assert proven_empty(unread) is empty, tokens


def states(text: str, *, settled: bool = False) -> list[CallState]:
    ordered = with_continuations(calls(text))
    return [call.state for call in calls_of(ordered, settled=settled)]


def test_what_fetches_a_background_response_belongs_to_its_call() -> None:
    for text, running, over in (
        ("200+queued", CallState.PENDING, CallState.UNANSWERED),
        ("200+queued 200+polled*3", CallState.PENDING, CallState.UNANSWERED),
        ("200+queued 200+fetched", CallState.ANSWERED, CallState.ANSWERED),
        ("200+queued 200+fetched 503+polled", CallState.ANSWERED, CallState.ANSWERED),
        ("200+queued 503+polled", CallState.FAILED, CallState.FAILED),
        ("200+queued 503+polled 200+polled", CallState.PENDING, CallState.UNANSWERED),
        ("200+queued 200+fetched+provider_error", CallState.FAILED, CallState.FAILED),
    ):
        assert states(text) == [running], text
        assert states(text, settled=True) == [over], text


def test_a_background_response_that_the_agent_took_back_is_nobodys_failure() -> None:
    begun, taken = calls("200+queued 200+fetched")
    taken = replace(taken, finish_reason="cancelled", output_seen=False)
    (call,) = calls_of([begun, taken])
    assert (call.state, call.abandoned) == (CallState.UNANSWERED, True)


def test_what_fetches_a_response_of_another_rollout_is_no_call() -> None:
    assert states("200+fetched 200") == [CallState.ANSWERED]


def test_an_answer_that_is_not_fetched_later_takes_no_fetch_by_its_id() -> None:
    begun, fetched = calls("200+queued 200+fetched")
    began = begun.timing.started_at
    named = replace(begun, id="named", pending=None, output_seen=False)
    named = _during(named, began + 0.6, began + 0.7)
    attempts = {call.attempts for call in calls_of([begun, named, fetched])}
    assert attempts == {(begun, fetched), (named,)}


def test_a_redirect_is_not_given_up() -> None:
    for text, abandoned in (("302+empty", False), ("left", True), ("200", False), ("503", False)):
        (call,) = calls_of(calls(text))
        assert call.abandoned is abandoned, text


# --- When two names mean one model ----------------------------------------------------------------

ONE_MODEL = (
    ("gpt-5", "GPT-5", "openai/gpt-5", "gpt-5-2025-08-07", "openai/gpt-5:nitro", "gpt-5@latest"),
    (
        "claude-sonnet-4",
        "claude-sonnet-4-20250514",
        "claude-sonnet-4@20250514",
        "anthropic/claude-sonnet-4:thinking",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-20250514-v1:0",
        "publishers/anthropic/models/claude-sonnet-4@20250514",
    ),
    ("gemini-2.5-pro", "models/gemini-2.5-pro", "google/Gemini-2.5-Pro"),
    ("llama3-1-70b-instruct", "meta.llama3-1-70b-instruct-v1:0"),
    ("command-r", "cohere/command-r-08-2024"),
    ("deepseek-r1", "deepseek/deepseek-r1:free", "us.deepseek.deepseek-r1-v1:0"),
    ("qwen3:32b", "library/qwen3:32B"),
)
OTHERS = (
    "gpt-5-mini", "qwen3:4b", "qwen3:0.6b-q4_K_M", "gemma3n:e4b", "deepseek-v3",
    "ft:gpt-5:acme:one:a1", "ft:gpt-5:acme:two:b2", "claude-opus-4",
)  # fmt: skip


def test_prefix_region_date_suffix_and_case_make_no_other_model() -> None:
    for names in ONE_MODEL:
        assert len({canonical(name) for name in names}) == 1, names


def test_other_models_stay_apart() -> None:
    names = [*(names[0] for names in ONE_MODEL), *OTHERS]
    for one, two in combinations(names, 2):
        assert canonical(one) != canonical(two), (one, two)


def test_an_unknown_name_equals_none() -> None:
    assert canonical(None) is None
    assert unsized(None) is None


def test_a_size_can_be_left_out_where_only_one_is_meant() -> None:
    assert unsized("ollama/qwen3:32b") == unsized("qwen3") == "qwen3"
    assert unsized("ft:gpt-5:acme:one:a1") != unsized("ft:gpt-5:acme:two:b2")

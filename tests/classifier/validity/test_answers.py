from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from classifier import judge
from classifier.records import Exchange, RolloutRecord, Usage, UsageSource
from classifier.validity.answers import (
    ENGINE_ABORTED,
    OUTPUT_TRUNCATED,
    PROMPT_TRUNCATED,
    REASONING_ATE_BUDGET,
    TOOL_CALLS_UNPARSED,
)
from classifier.verdicts import Coverage, Level, ValidityFinding
from tests.builders import rollout
from tests.classifier.validity.judged import call, coverage, found, level, record

# --- Prompts that were read in part only ----------------------------------------------------------


def conversation(counts: Sequence[int | None], grown: int = 2000, **facts: Any) -> list[Exchange]:
    """Calls that go on with each other, of so many input tokens, each so many bytes longer."""
    text = facts.pop("text", "200+tool")
    return [
        call(
            text,
            input=count,
            continues=f"x{at - 1}" if at else None,
            request_bytes=40_000 + at * grown,
            **facts,
        )
        for at, count in enumerate(counts)
    ]


def test_a_growing_conversation_whose_count_falls_or_stands_still_was_cut() -> None:
    for counts, expected in (
        ([3000, 3400, 3900, 4500], None),
        ([3000, 3974, 2051], "suspect"),  # a fall by itself proves nothing
        ([3974, 2051, 2051, 2052], "invalid"),  # a count that stands still does
        ([2051, 2051], None),
        ([2050, 2060, 2066], "invalid"),
        ([2050, 2060, 2067], None),
        ([10_000, 9_600], None),  # 4 %
        ([10_000, 9_400], "suspect"),
        ([1_000, 940], None),  # 60 tokens
        ([3000, None, 3400, 3900], None),
        ([3000, None, 1400], "suspect"),
    ):
        assert level(PROMPT_TRUNCATED, record(conversation(counts))) == expected, counts


def test_less_than_a_token_for_three_words_was_not_read_whole() -> None:
    for count, words, size, expected in (
        (4096, 30_000, 200_000, "invalid"),
        (4096, 12_289, 200_000, "invalid"),
        (4096, 12_288, 200_000, None),
        (4096, 30_000, 40_000, None),  # more words than its bytes can hold tells of no cut
        (15, 30_000, 200_000, None),  # counts something else than a prompt
        (0, 30_000, 200_000, None),
        (None, 30_000, 200_000, None),
    ):
        one = call(input=count, prompt_words=words, request_bytes=size)
        assert level(PROMPT_TRUNCATED, record([one])) == expected, (count, words)


def test_cached_tokens_that_are_counted_beside_the_input_are_input() -> None:
    beside: list[dict[str, Any]] = [
        {"input": 300, "cached_input_tokens": 9_000},
        {"input": 300, "cached_input_tokens": 0, "cache_write_tokens": 9_000},
    ]
    for facts in beside:
        one = call(prompt_words=6_000, request_bytes=200_000, **facts)
        assert level(PROMPT_TRUNCATED, record([one])) is None, facts
    falling = conversation([9_000, 400, 500, 500])
    hits = [replace(x, usage=replace(x.usage, cached_input_tokens=9_000)) for x in falling[1:]]
    assert level(PROMPT_TRUNCATED, record([falling[0], *hits])) is None
    # A gateway that leaves them out without a word makes every first count a small one.
    still = conversation([4, 4, 4, 4])
    assert level(PROMPT_TRUNCATED, record(still)) is None
    rests = conversation([300, 301, 302], cached_input_tokens=20_000)
    assert level(PROMPT_TRUNCATED, record(rests)) is None


def test_ollamas_counts_say_less_for_its_cache() -> None:
    engines: list[dict[str, Any]] = [
        {"api": "ollama.chat"},
        {"upstream": "ollama"},
        {"upstream": "llamacpp"},
    ]
    for facts in engines:
        assert (
            level(PROMPT_TRUNCATED, record(conversation([9_000, 400, 5_000], **facts))) is None
        ), facts
        assert level(PROMPT_TRUNCATED, record(conversation([500, 501, 502], **facts))) is None, (
            facts
        )
        assert (
            level(PROMPT_TRUNCATED, record(conversation([2_050, 2_051, 2_050], **facts)))
            == "invalid"
        ), facts
        for count, expected in ((2_050, "invalid"), (900, None)):
            cold = call(input=count, prompt_words=9_000, request_bytes=200_000, **facts)
            assert level(PROMPT_TRUNCATED, record([cold])) == expected, (facts, count)
        warm = conversation([2_000, 2_300], prompt_words=9_000, grown=100_000, **facts)
        assert (
            level(PROMPT_TRUNCATED, record([replace(warm[0], prompt_words=None), warm[1]])) is None
        ), facts
        stated = conversation([9_000, 400], cached_input_tokens=0, **facts)
        assert level(PROMPT_TRUNCATED, record(stated)) == "suspect", facts


def test_counts_of_other_tokenizers_are_not_compared() -> None:
    changes: list[dict[str, Any]] = [
        {"model": "o3"},
        {"answered_model": "o3"},
        {"upstream": "groq"},
        {"served_by": "Groq"},
        {"api": "anthropic.messages"},
    ]
    for change in changes:
        first, second = conversation([9_000, 4_000], answered_model="gpt-5", served_by="Azure")
        assert level(PROMPT_TRUNCATED, record([first, replace(second, **change)])) is None, change


def test_what_may_leave_a_conversation_again_is_no_cut() -> None:
    for written, expected in ((6_000, None), (600, "suspect")):  # reasoning that is dropped
        first, second = conversation([9_000, 4_000])
        first = replace(first, usage=replace(first.usage, output_total=written))
        assert level(PROMPT_TRUNCATED, record([first, second])) == expected, written
    first, second = conversation([9_000, 4_000], api="gemini.generateContent")
    searched = replace(first, usage=replace(first.usage, input_tokens=3_900))
    assert level(PROMPT_TRUNCATED, record([first, second])) == "suspect"
    assert (
        level(PROMPT_TRUNCATED, record([searched, second])) is None
    )  # Google's search is read once
    small = [replace(x, request_bytes=x.request_bytes - 39_000) for x in (first, second)]
    found_pages = [replace(x, api="anthropic.messages") for x in small]
    assert level(PROMPT_TRUNCATED, record(found_pages)) is None  # 9,000 tokens of 1,000 bytes
    later = conversation([3_000, 9_000, 4_000], grown=5_000)
    assert level(PROMPT_TRUNCATED, record(later)) is None
    assert (
        level(PROMPT_TRUNCATED, record(conversation([3_000, 9_000, 4_000], grown=6_000)))
        == "suspect"
    )
    online = conversation([9_000, 4_000], model="gpt-5:online")
    assert level(PROMPT_TRUNCATED, record(online)) is None


def test_what_the_provider_compacted_was_not_cut() -> None:
    api = "anthropic.messages"
    for compacting in (20_300, 2_700):  # with a compaction of all, and of few tokens
        falling = conversation([15_000, compacting, 2_000, 2_600], grown=10_000, api=api)
        assert level(PROMPT_TRUNCATED, record(falling)) == "suspect", compacting
        counts = replace(falling[1].usage, input_tokens=2_300)  # the rest is the compaction's
        falling[1] = replace(falling[1], usage=counts)
        assert level(PROMPT_TRUNCATED, record(falling)) is None, compacting


def test_what_the_agent_left_out_itself_was_not_cut() -> None:
    for grown, expected in ((1, "suspect"), (0, None), (-20_000, None)):
        assert (
            level(PROMPT_TRUNCATED, record(conversation([9_000, 4_000], grown=grown))) == expected
        ), grown


def test_calls_that_go_on_with_nothing_are_not_compared() -> None:
    compacted = [replace(x, continues=None) for x in conversation([90_000, 9_000, 9_100])]
    assert level(PROMPT_TRUNCATED, record(compacted)) is None
    # Two conversations side by side: each is compared with itself.
    agent, helper = conversation([9_000, 9_500, 9_900]), conversation([2_000, 2_400, 2_900])
    both = [x for pair in zip(agent, helper, strict=True) for x in pair]
    linked = [replace(x, continues=None if at < 2 else f"x{at - 2}") for at, x in enumerate(both)]
    assert level(PROMPT_TRUNCATED, record(linked)) is None


def test_a_conversation_that_hardly_grew_may_keep_its_count() -> None:
    assert level(PROMPT_TRUNCATED, record(conversation([2_050, 2_051, 2_052], grown=399))) is None
    assert (
        level(PROMPT_TRUNCATED, record(conversation([2_050, 2_051, 2_052], grown=400))) == "invalid"
    )


def test_failed_calls_between_are_skipped() -> None:
    calls = conversation([9_000, 9_000, 4_000])
    failed = call("503", continues="x0", request_bytes=41_000)
    assert level(PROMPT_TRUNCATED, record([calls[0], failed, calls[2]])) == "suspect"
    for count, expected in ((9_000, "suspect"), (4_000, None)):  # counted, then cut
        half = replace(failed, usage=replace(calls[1].usage, input_total=count))
        assert level(PROMPT_TRUNCATED, record([calls[0], half, calls[2]])) == expected, count


def test_side_calls_weigh_less() -> None:
    main = [call("200+tool*1")]
    for counts, expected in (([9_000, 4_000], "info"), ([2_050, 2_051, 2_050], "suspect")):
        side = conversation(counts, text="200+side", has_tools=False)
        assert level(PROMPT_TRUNCATED, record([*side, *main])) == expected, counts


def test_the_finding_tells_the_counts_and_the_calls() -> None:
    finding = found(PROMPT_TRUNCATED, record(conversation([9_000, 4_000])))
    assert finding is not None
    assert finding.sentence == (
        "1 of 1 prompt was probably read in part only: the count fell from 9,000 to 4,000 tokens "
        "while the conversation grew"
    )
    finding = found(PROMPT_TRUNCATED, record(conversation([3_974, 2_051, 2_051, 2_052])))
    assert finding is not None
    assert finding.sentence == (
        "2 of 3 prompts were read in part only: 2,052 tokens were counted while the conversation "
        "grew twice"
    )
    assert finding.evidence == ("x3",)
    assert finding.about == {"read_tokens": 2_052, "words": 0, "stuck": 1, "fall": 1}
    finding = found(
        PROMPT_TRUNCATED, record([call(input=4_096, prompt_words=30_000, request_bytes=200_000)])
    )
    assert finding is not None
    assert finding.sentence == (
        "1 of 1 prompt was read in part only: 4,096 tokens were counted of at least 30,000 words"
    )


def test_what_could_be_compared_is_covered() -> None:
    assert coverage(PROMPT_TRUNCATED, record(conversation([3_000, 3_400, None, 3_900]))) == (2, 4)
    assert coverage(PROMPT_TRUNCATED, record([call(prompt_words=100), call()])) == (1, 2)
    assert coverage(PROMPT_TRUNCATED, record([call("429")])) is None
    other = conversation([3_000, 3_400])
    assert coverage(PROMPT_TRUNCATED, record([other[0], replace(other[1], model="o3")])) == (0, 2)


def test_links_that_lead_nowhere_or_in_a_circle_do_no_harm() -> None:
    circle = [call(input=9_000 - at, continues=f"x{1 - at}") for at in range(2)]
    assert level(PROMPT_TRUNCATED, record(circle)) is None
    silent = [call("200+tool+nousage", continues=f"x{1 - at}") for at in range(2)]
    assert level(PROMPT_TRUNCATED, record([*silent, call(input=9_000, continues="x0")])) is None
    assert level(PROMPT_TRUNCATED, record([call(input=9_000, continues="gone")])) is None


def falling(times: int) -> RolloutRecord:
    """A conversation whose count falls at every second call."""
    return record(_sawtooth(times))


def _sawtooth(times: int) -> Iterable[Exchange]:
    return conversation([9_000 if at % 2 else 4_000 for at in range(times)], grown=6_000)


def test_every_second_call_may_fall() -> None:
    finding = found(PROMPT_TRUNCATED, falling(40))
    assert finding is not None
    assert (finding.calls, finding.of, len(finding.evidence)) == (19, 39, 10)
    assert judge(falling(40)).health.value == "healthy"


# --- Answers that end at a limit of tokens --------------------------------------------------------

WHOLE = call("200+tool")
LAST = call("200")


def cut(text: str = "200", **facts: Any) -> Any:
    return call(text, **{"finish_reason": "length"} | facts)


def test_what_was_cut_says_how_much_it_matters() -> None:
    below: dict[str, Any] = {"output_limit": 4096, "output": 1800}
    for calls, expected in (
        ([WHOLE, LAST], None),
        ([cut(), WHOLE, LAST], "info"),
        ([WHOLE, cut()], "suspect"),
        ([cut("200+tool"), LAST], "suspect"),
        ([WHOLE, cut("200+side")], None),  # no answer of the model under test
        ([cut(**below), WHOLE, LAST], "invalid"),
        ([WHOLE, cut(**below)], "invalid"),
        ([WHOLE, call("429")], None),
        ([WHOLE, cut(), call("429")], "info"),  # the agent was cut off, by another cause
    ):
        assert level(OUTPUT_TRUNCATED, record(calls)) == expected, [x.finish_reason for x in calls]


def test_every_dialects_word_for_it_is_read() -> None:
    for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length",
                   "incomplete:max_output_tokens"):  # fmt: skip
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(finish_reason=reason)])) == "suspect", (
            reason
        )
    for reason in ("stop", "end_turn", "tool_calls", "STOP", "content_filter", "refusal"):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(finish_reason=reason)])) is None, reason


def test_a_cut_is_below_the_limit_only_where_the_counts_prove_it() -> None:
    for facts, expected in (
        ({"output_limit": 1000, "output": 940}, "invalid"),
        ({"output_limit": 1000, "output": 960}, "suspect"),  # Gemini ends a little earlier
        ({"output_limit": 1000, "output": 1000}, "suspect"),
        ({"output_limit": 1000, "output": 1400}, "suspect"),
        ({"output_limit": 50, "output": 40}, "suspect"),  # too near to say
        ({"output_limit": 1000, "output": None}, "suspect"),
        ({"output_limit": None, "output": 100}, "suspect"),
        # Reasoning that only the total counts.
        ({"output_limit": 1000, "output": 90, "input": 50, "total_tokens": 1050}, "suspect"),
        ({"output_limit": 1000, "output": 90, "input": 50, "total_tokens": 140}, "invalid"),
        # Counted before the answer was over.
        ({"output_limit": 1000, "output": 1}, "suspect"),
        ({"output_limit": 1000, "output": 90, "source": UsageSource.HEADER}, "suspect"),
    ):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(**facts)])) == expected, facts


def test_who_asks_for_a_few_tokens_gets_them() -> None:
    for limit, expected in ((1, "info"), (16, "info"), (17, "suspect")):
        one = record([cut(output_limit=limit, output=limit)])
        assert level(OUTPUT_TRUNCATED, one) == expected, limit


def test_an_unknown_limit_was_what_was_written() -> None:
    for written, expected in ((1, "info"), (16, "info"), (17, "suspect"), (None, "suspect")):
        assert level(OUTPUT_TRUNCATED, record([WHOLE, cut(output=written)])) == expected, written


def test_the_finding_tells_numbers_and_the_calls_that_matter() -> None:
    early = cut(output_limit=4096, output=1800)
    finding = found(OUTPUT_TRUNCATED, record([cut(), *[WHOLE] * 3, early, LAST]))
    assert finding is not None
    assert finding.sentence == (
        "2 of 6 answers ended at a limit of tokens, 1 of them below the limit that was asked for "
        "(1,800 of 4,096 tokens)"
    )
    assert (finding.calls, finding.of, finding.evidence) == (2, 6, ("x4",))
    assert finding.about == {"below_limit": 1, "last_or_tool_call": 0}


def test_only_answers_with_a_finish_reason_are_covered() -> None:
    assert coverage(OUTPUT_TRUNCATED, record([WHOLE, call("200", finish_reason=None)])) == (1, 2)
    assert coverage(OUTPUT_TRUNCATED, record([call("429")])) is None
    assert coverage(OUTPUT_TRUNCATED, record([WHOLE, call("200+side")])) == (1, 1)


def test_a_running_rollout_is_looked_at_too() -> None:
    assert level(OUTPUT_TRUNCATED, record([WHOLE, cut()], running=True)) == "suspect"


# --- An engine that stopped in the middle of an answer --------------------------------------------


def finding(*reasons: str | None) -> ValidityFinding | None:
    record = rollout(" ".join(["200+tool"] * len(reasons)))
    calls = zip(record.exchanges, reasons, strict=True)
    exchanges = tuple(replace(call, finish_reason=reason) for call, reason in calls)
    verdict = judge(replace(record, exchanges=exchanges))
    assert verdict.health.value == "healthy"
    return next((found for found in verdict.validity if found.check == ENGINE_ABORTED), None)


def test_an_abort_is_found_and_the_last_one_is_invalid() -> None:
    for reasons, expected, calls in (
        (("stop", "stop"), None, 0),
        (("abort", "stop"), Level.SUSPECT, 1),
        (("stop", "abort"), Level.INVALID, 1),
        (("abort", "ABORT"), Level.INVALID, 2),
        (("stop", "error"), Level.INVALID, 1),
        (("stop", "failed:aborted"), Level.INVALID, 1),
        (("stop", None), Level.INVALID, 1),
        (("stop", "unfit"), None, 0),
        ((None, "stop"), Level.SUSPECT, 1),
        ((None, None), None, 0),  # a server that never states one
    ):
        found = finding(*reasons)
        assert (found.level if found else None) is expected, reasons
        if found is not None:
            assert (found.calls, found.of) == (calls, len(reasons)), reasons


def test_a_side_calls_abort_does_not_hide_that_of_the_last_answer() -> None:
    record = rollout("200+tool[0-5] 200+side[1-9]")
    exchanges = tuple(replace(call, finish_reason="abort") for call in record.exchanges)
    (found,) = judge(replace(record, exchanges=exchanges)).validity
    assert (found.level, found.calls, found.about) == (
        Level.INVALID, 2, {"finish_reasons": ["abort"]},
    )  # fmt: skip


def test_a_dialect_without_finish_reasons_is_not_covered() -> None:
    record = rollout("200+tool 200+tool")
    for api, looked in (("openai.chat", 2), ("anthropic.messages", 2), ("ollama.chat", 1)):
        first, last = (replace(call, api=api) for call in record.exchanges)
        exchanges = (first, replace(last, finish_reason=None))
        verdict = judge(replace(record, exchanges=exchanges))
        assert verdict.validity_coverage[ENGINE_ABORTED] == Coverage(looked=looked, of=2), api
        assert bool(verdict.validity) == (looked == 2), api


def test_a_compacted_conversation_has_no_end() -> None:
    record = rollout("200+tool>gpt-5 200>gpt-5")
    answered, last = (replace(call, api="openai.responses") for call in record.exchanges)
    for model, expected in ((None, None), ("gpt-5", Level.INVALID)):
        ended = replace(last, finish_reason=None, answered_model=model)
        found = judge(replace(record, exchanges=(answered, ended))).validity
        assert [each.level for each in found] == ([expected] if expected else []), model


def test_an_agent_that_called_other_paths_may_have_aborted_its_own_call() -> None:
    for text, expected in (
        ("200+tool 200", Level.INVALID),
        ("200+tool 200+other 200", Level.SUSPECT),
        ("200+tool 200+other%elsewhere 200", Level.INVALID),
        ("200+tool 200+probe 200", Level.INVALID),
    ):
        record = rollout(text)
        last = replace(record.exchanges[-1], finish_reason="abort")
        (found,) = judge(replace(record, exchanges=(*record.exchanges[:-1], last))).validity
        assert found.level is expected, text


# --- Answers of reasoning only --------------------------------------------------------------------


def test_a_limit_that_reasoning_used_up_is_found() -> None:
    for text, facts, expected in (
        ("200+reasoned", {}, "suspect"),
        ("200+thought", {"output": 512}, "suspect"),  # hidden: only counted
        ("200+thought", {"reasoning_tokens": 512, "output": 512}, "suspect"),
        ("200+thought", {"output": 0}, None),  # nothing came at all
        ("200+reasoned", {"output_limit": 16}, "suspect"),
        ("200+reasoned", {"output_limit": 1}, None),  # a probe
        ("200", {"reasoning_tokens": 512}, None),  # text came too
        ("200+tool", {"reasoning_tokens": 512}, None),
        ("200+unread", {}, None),
        ("200+side+reasoned", {}, None),
    ):
        judged = record([WHOLE, call(text, **{"finish_reason": "length", **facts})])
        assert level(REASONING_ATE_BUDGET, judged) == expected, (text, facts)


def test_reasoning_that_ended_by_itself_is_another_matter() -> None:
    for reason in ("stop", "refusal", None):
        judged = record([WHOLE, call("200+reasoned", finish_reason=reason)])
        assert level(REASONING_ATE_BUDGET, judged) is None, reason


def test_a_limit_that_was_spent_is_one_whatever_the_finish_reason() -> None:
    for limit, expected in ((512, "suspect"), (513, None), (None, None)):
        spent = call("200+thought", finish_reason="stop", output=512, output_limit=limit)
        assert level(REASONING_ATE_BUDGET, record([WHOLE, spent])) == expected, limit


def test_the_finding_tells_how_much_went_into_it() -> None:
    eaten = call("200+thought", finish_reason="MAX_TOKENS", output=8192, output_limit=8192)
    finding = found(REASONING_ATE_BUDGET, record([eaten, WHOLE, eaten]))
    assert finding is not None
    assert finding.sentence == (
        "reasoning used up the limit of 2 of 3 answers before any text or tool call, the last one "
        "after 8,192 tokens"
    )
    assert finding.evidence == ("x0", "x2")
    assert finding.about == {"output_tokens": 8192, "limit": 8192}
    silent = call("200+reasoned", finish_reason="length", usage=Usage())
    finding = found(REASONING_ATE_BUDGET, record([silent]))
    assert finding is not None
    assert finding.sentence.endswith("before any text or tool call")


def test_answers_that_could_not_be_read_are_not_covered() -> None:
    unread = call("200", output_seen=None)
    assert coverage(REASONING_ATE_BUDGET, record([WHOLE, unread])) == (1, 2)
    assert coverage(REASONING_ATE_BUDGET, record([call("429")])) is None


# --- Tool calls that came as text -----------------------------------------------------------------

PARSED = call("200+tool", written_call=False)
TEXT = call("200", written_call=False)
WRITTEN = call("200", written_call=True)


def test_calls_written_as_text_are_found_where_they_matter() -> None:
    for calls, expected in (
        ([PARSED, TEXT], None),
        ([WRITTEN], "invalid"),  # the agent got no call, and stopped
        ([TEXT, WRITTEN], "invalid"),
        ([PARSED, WRITTEN], "suspect"),  # the parser works; the model may have slipped
        ([WRITTEN, TEXT], None),  # once, and it went on
        ([WRITTEN, WRITTEN, TEXT], "suspect"),
        ([WRITTEN, PARSED, WRITTEN, PARSED], "suspect"),
        ([WRITTEN, call("503")], None),
        ([WRITTEN, PARSED, call("200+side", written_call=True)], None),
    ):
        assert level(TOOL_CALLS_UNPARSED, record(calls)) == expected, [
            x.written_call for x in calls
        ]


def test_the_finding_says_whether_any_call_was_parsed() -> None:
    finding = found(TOOL_CALLS_UNPARSED, record([TEXT, WRITTEN, WRITTEN]))
    assert finding is not None
    assert finding.sentence == (
        "2 of 3 answers ended in a tool call written as text, the last one among them; none was "
        "ever parsed"
    )
    assert (finding.evidence, finding.about) == (("x1", "x2"), {"parsed_calls": 0})
    finding = found(TOOL_CALLS_UNPARSED, record([WRITTEN, WRITTEN, PARSED]))
    assert finding is not None
    assert finding.sentence == "2 of 3 answers ended in a tool call written as text"
    assert finding.about == {"parsed_calls": 1}


def test_it_is_about_calls_with_tools_and_covers_those_whose_text_was_seen() -> None:
    assert coverage(TOOL_CALLS_UNPARSED, record([TEXT, call("200")])) == (1, 2)
    assert coverage(TOOL_CALLS_UNPARSED, record([call("200")])) == (0, 1)
    assert coverage(TOOL_CALLS_UNPARSED, record([call("200+toolless")])) is None
    assert coverage(TOOL_CALLS_UNPARSED, record([call("429")])) is None

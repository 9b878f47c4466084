"""Prompts that were read in part only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from classifier import judge
from classifier.records import Exchange, RolloutRecord
from classifier.validity.answers import PROMPT_TRUNCATED
from tests.classifier.validity.judged import call, coverage, found, level, record


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

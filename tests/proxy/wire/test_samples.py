"""Every documented fact about usage, observed whole, byte by byte, and cut at every place."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from classifier.records import COUNT_LIMIT, Ending, Exchange, Usage
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SAMPLES, Sample
from tests.tables import each

FIELDS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
          "reasoning_tokens", "total_tokens")  # fmt: skip
TOTALS = ("input_total", "output_total")
every_sample = each("sample", SAMPLES, ids=lambda sample: sample.name)


def hear(sample: Sample, pieces: list[bytes], ending: Ending = Ending.COMPLETE) -> Exchange:
    return observed(pieces, sample.path, type_=sample.type, headers=sample.headers, ending=ending)


def test_there_are_at_least_eighty_samples_each_with_its_own_name_and_a_source() -> None:
    assert len(SAMPLES) >= 80
    assert len({sample.name for sample in SAMPLES}) == len(SAMPLES)
    assert all(sample.fact and sample.source for sample in SAMPLES)


@every_sample
def test_the_provider_s_own_numbers_are_read(sample: Sample) -> None:
    usage = hear(sample, [sample.body]).usage
    assert tuple(getattr(usage, field) for field in FIELDS) == sample.counts
    assert (usage.input_total, usage.output_total) == sample.totals
    assert usage.source == sample.usage_from
    assert usage.cost_usd == (None if sample.cost is None else pytest.approx(sample.cost))


@every_sample
def test_what_the_answer_did_is_read(sample: Sample) -> None:
    exchange = hear(sample, [sample.body])
    assert exchange.answered_model == sample.model
    assert exchange.finish_reason == sample.finish
    assert exchange.cause is None
    assert exchange.unreadable_reason == sample.unread
    assert exchange.ending is Ending.COMPLETE
    seen = (exchange.output_seen, exchange.content_seen)
    if sample.name == "stream-unknown-shape":
        assert (exchange.tool_calls, *seen) == (None, None, None)
    else:
        content = sample.output if sample.content is None else sample.content
        assert (exchange.tool_calls, *seen) == (sample.calls, sample.output, content)


def test_counts_that_no_call_can_have_are_unreadable_in_every_dialect() -> None:
    tried = set()
    for sample in SAMPLES:
        claimed = sample.body
        for stated in filter(None, sample.counts):
            claimed = re.sub(rb'(":\s*)%d(?:\.0)?\b' % stated, rb"\g<1>9007199254740991", claimed)
        if claimed == sample.body or b":message-type" in claimed:  # a frame says how long it is
            continue
        exchange = hear(replace(sample, body=claimed), [claimed])
        numbers = [getattr(exchange.usage, field) for field in (*FIELDS, *TOTALS)]
        assert max(filter(None, numbers), default=0) <= COUNT_LIMIT, sample.name
        assert exchange.unreadable_reason == "a count or a cost that no call can have", sample.name
        assert exchange.finish_reason == sample.finish, sample.name
        tried.add(exchange.api)
    assert len(tried) >= 9, tried


@every_sample
def test_chunking_changes_nothing(sample: Sample) -> None:
    whole = hear(sample, [sample.body])
    for size in (1, 2, 7, 64):
        cut = [sample.body[i : i + size] for i in range(0, len(sample.body), size)]
        assert hear(sample, cut) == whole, size


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
@every_sample
def test_an_answer_cut_anywhere_invents_nothing(sample: Sample, step: int) -> None:
    whole = hear(sample, [sample.body])
    stated = {int(n) for n in re.findall(r"\d+", _plain(sample))}
    for place in range(0, len(sample.body), step if len(sample.body) < 700 else 5 * step):
        cut = hear(sample, [sample.body[:place]], Ending.CUT_UPSTREAM)
        assert cut.unreadable_reason is None
        assert (cut.output_seen or False) <= (whole.output_seen or False)
        assert (cut.content_seen or False) <= (whole.content_seen or False)
        assert (cut.tool_calls or 0) <= (whole.tool_calls or 0)
        assert cut.finish_reason in (None, whole.finish_reason)
        assert {getattr(cut.usage, field) for field in FIELDS} <= stated | {None}
        if cut.ending is Ending.COMPLETE:  # what was whole before the cut says all there is
            assert _same(cut, whole)


def _same(cut: Exchange, whole: Exchange) -> bool:
    return replace(cut, response_bytes=0) == replace(whole, response_bytes=0)


def _plain(sample: Sample) -> str:
    """All digits of a sample, those inside base64 chunks and headers too."""
    return f"{sample.body!r} {sample.counts} {dict(sample.headers)} 1"


def test_a_cut_stream_s_counts_are_partial() -> None:
    sample = next(one for one in SAMPLES if one.name == "anthropic-stream")
    place = sample.body.index(b"event: message_delta")
    cut = hear(sample, [sample.body[:place]], Ending.CUT_UPSTREAM)
    assert cut.usage == Usage(
        input_tokens=20, output_tokens=1, cached_input_tokens=3000, cache_write_tokens=100,
        input_total=3120, output_total=1, source=cut.usage.source.PARTIAL,
    )  # fmt: skip
    assert cut.cause is not None


def test_a_cut_gemini_stream_keeps_the_newest_counts() -> None:
    sample = next(one for one in SAMPLES if one.name == "gemini-sse")
    place = sample.body.index(b"STOP")
    cut = hear(sample, [sample.body[:place]], Ending.LEFT_BY_AGENT)
    assert (cut.usage.input_tokens, cut.usage.output_tokens) == (60, 5)
    assert cut.usage.source == "partial"

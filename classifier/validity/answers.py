"""Checks of answers and prompts.

Truncated, spent on reasoning, unparsed, aborted, an error in an answer's place, or all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import attrgetter

from classifier.logical_calls import cut_short, cuts, has_content, is_abort, output_tokens
from classifier.records import Exchange, Kind, Usage, UsageSource
from classifier.reference_rules import Failure, compare
from classifier.validity.measurement import CheckResult, Measurement, may_hide_cache, tally
from classifier.verdicts import Comparison, Coverage, Level, Subcategory, plural

# --- output truncated ---
#
# Answers that were cut by a limit of tokens, and scored as if the model had finished.
#
# Finish reasons: see ``logical_calls``. One evaluation lost 19-37 % of its answers to the limit and
# read 0.241 where whole answers scored 0.956 (github.com/allenai/olmo-eval/issues/399, 2026-09). A
# cut before the request's own limit is the engine's: its window was full, or it has a smaller limit
# of its own (Ollama's window of 4,096: github.com/NousResearch/hermes-agent/issues/43900).


OUTPUT_TRUNCATED = "output_truncated"
_FEW = 16  # tokens; who asks for so few wants no whole answer (probes, multiple choice)
_SHARE = 0.95  # of a limit; Gemini ends some tokens before its own


def _early(answer: Exchange) -> bool:
    """Return True if the answer was cut clearly below the limit that the request set."""
    limit, usage = answer.output_limit, answer.usage
    if limit is None or usage.output_total is None or usage.source is not UsageSource.PROVIDER:
        return False
    made = usage.output_total
    if usage.total_tokens is not None and usage.input_total is not None:
        # Reasoning that only the total counts (Gemini, xAI) was bought of the limit too.
        made = max(made, usage.total_tokens - usage.input_total)
    return _FEW <= made < limit * _SHARE and made + _FEW <= limit


def _matters(answer: Exchange, last: Exchange | None) -> bool:
    """Return True if the cut answer is a tool call or the last answer of the rollout."""
    if answer.tool_calls:
        return True
    # An unknown limit was no higher than what was written.
    limit = output_tokens(answer) if answer.output_limit is None else answer.output_limit
    return last is not None and answer.id == last.id and (limit is None or limit > _FEW)


def output_truncated(measured: Measurement) -> CheckResult | None:
    """Find answers on main that ended at a limit of tokens.

    Levels: `info`; `suspect`: the last answer, or a tool call was cut; `invalid`: cut clearly
    below the limit that the request set.

    Covered: its finish reason is known.
    """
    main = measured.main
    if not main:
        return None
    reasons = tally(main, "finish_reason")
    coverage = Coverage(looked=len(main) - reasons[None], of=len(main))
    limits = set(filter(cuts, reasons))
    if not limits:
        return CheckResult(coverage=coverage)
    cut = [x for x in main if x.finish_reason in limits]
    early = [x for x in cut if _early(x)]
    mattered = [x for x in cut if _matters(x, measured.ended_on)]
    level = Level.INVALID if early else Level.SUSPECT if mattered else Level.INFO
    return CheckResult.found(
        coverage,
        check=OUTPUT_TRUNCATED,
        level=level,
        calls=cut,
        proof=early or mattered or cut,
        sentence=_sentence(cut, early, mattered, coverage.looked),
        about={"below_limit": len(early), "last_or_tool_call": len(mattered)},
    )


def _sentence(cut: list[Exchange], early: list[Exchange], mattered: list[Exchange], of: int) -> str:
    sentence = f"{len(cut):,} of {plural(of, 'answer')} ended at a limit of tokens"
    if early:
        last = early[-1]
        sentence += (
            f", {len(early):,} of them below the limit that was asked for"
            f" ({last.usage.output_total:,} of {plural(last.output_limit or 0, 'token')})"
        )
    elif mattered:
        sentence += ", a tool call or the last answer among them"
    return sentence


# --- reasoning ate budget ---
#
# Answers that are all reasoning: the limit was reached before a word or a tool call was written.
#
# Reasoning is paid for out of the limit of the answer: platform.openai.com/docs/guides/reasoning
# ("status: incomplete"), ai.google.dev/gemini-api/docs/thinking. An evaluation with a limit of 16
# read accuracy 0.000 with status success (github.com/UKGovernmentBEIS/inspect_evals/pull/2474).


REASONING_ATE_BUDGET = "reasoning_ate_budget"
_PROBE = 16  # tokens; a request that allows fewer asks for no answer


def _all_reasoning(answer: Exchange) -> bool:
    if has_content(answer) is not False:
        return False
    if answer.output_limit is not None and answer.output_limit < _PROBE:
        return False
    seen = answer.output_seen or answer.usage.reasoning_tokens
    return bool(seen or output_tokens(answer))


def reasoning_ate_budget(measured: Measurement) -> CheckResult | None:
    """Find that the limit was reached before any text or tool call.

    Levels: `suspect`.

    Covered: the answer could be read.
    """
    main = measured.main
    if not main:
        return None
    unread = tally(main, "output_seen")[None]
    coverage = Coverage(looked=len(main) - unread, of=len(main))
    eaten = [x for x in main if x.content_seen is False and cut_short(x) and _all_reasoning(x)]
    if not eaten:
        return CheckResult(coverage=coverage)
    last = output_tokens(eaten[-1])
    spent = "" if last is None else f", the last one after {plural(last, 'token')}"
    return CheckResult.found(
        coverage,
        check=REASONING_ATE_BUDGET,
        level=Level.SUSPECT,
        calls=eaten,
        sentence=f"reasoning used up the limit of {len(eaten):,} of "
        f"{plural(coverage.looked, 'answer')} before any text or tool call{spent}",
        about={"output_tokens": last, "limit": eaten[-1].output_limit},
    )


# --- tool calls unparsed ---
#
# Tool calls that came as text, because the engine in front of the model did not parse them.
#
# The agent gets a text, finds no call in it and mostly stops. vLLM and SGLang parse calls only with
# the parser of the model's format: github.com/vllm-project/vllm/issues/17161, /22975, /46863.
# Capture sees whether a text ends, outside any code fence, in a call of a tool that the request
# offered, in a format that models are trained on.


TOOL_CALLS_UNPARSED = "tool_calls_unparsed"
_TWICE = 2  # once in the middle is a slip of the model, which the agent outlived


def tool_calls_unparsed(measured: Measurement) -> CheckResult | None:
    """Find answers that end in a call of an offered tool, written as text.

    Levels: `suspect`: twice, or the last answer; `invalid`: the last answer, and no call was
    ever parsed.

    Covered: tools were offered and the text was seen.

    The last answer of a rollout in which no call was ever parsed is invalid. Where others were
    parsed the parser works, and the model may have missed its format.
    """
    main = measured.main
    seen = tally(main, "has_tools", "written_call")
    offered = sum(n for (has_tools, _), n in seen.items() if has_tools)
    looked = sum(n for (_, written), n in seen.items() if written is not None)
    if not offered and not looked:
        return None
    coverage = Coverage(looked=looked, of=max(offered, looked))
    if not any(written for _, written in seen):
        return CheckResult(coverage=coverage)
    written = [x for x in main if x.written_call]
    last = measured.ended_on
    ended = last is not None and bool(last.written_call)
    if not ended and len(written) < _TWICE:
        return CheckResult(coverage=coverage)
    parsed = sum(x.tool_calls or 0 for x in main)
    end = ", the last one among them" if ended else ""
    ever = "" if parsed else "; none was ever parsed"
    return CheckResult.found(
        coverage,
        check=TOOL_CALLS_UNPARSED,
        level=Level.INVALID if ended and not parsed else Level.SUSPECT,
        calls=written,
        sentence=f"{len(written):,} of {plural(looked, 'answer')} ended in a tool call written "
        f"as text{end}{ever}",
        about={"parsed_calls": parsed},
    )


# --- engine aborted ---
#
# An engine stopped in the middle of an answer, and said so only in its finish reason.
#
# vLLM and SGLang end a request with ``abort`` when they pause for a weight update, are drained or
# drop it (vllm: ``vllm/v1/request.py`` ``RequestStatus``; sglang: ``FINISH_ABORT`` in
# ``python/sglang/srt/managers/schedule_batch.py``). The answer has HTTP 200 and a part of a text;
# one without is no answer but a failed call (`Flaw.ABORTED`). Some leave the reason out; a server
# that never states one proves nothing by that. What was aborted may well succeed when it is run
# again.
#
# SGLang aborts whatever ``POST /abort_request`` names, so that an agent which called other paths of
# the same engine may have done it itself.


ENGINE_ABORTED = "engine_aborted"
# Dialects in which a whole answer has a finish reason.
_ALWAYS_SAYS_WHY = frozenset((
    "openai.chat", "openai.responses", "anthropic.messages", "gemini.generateContent",
    "gemini.interactions",
))  # fmt: skip
_End = tuple[str, str, str | None]  # upstream, api, finish reason


def _aborts(ends: Collection[_End]) -> set[_End]:
    """Return those that are aborts: a reason that says so, or none where others have one."""
    say_why = {end[:2] for end in ends if end[2] and end[1] in _ALWAYS_SAYS_WHY}
    return {end for end in ends if (end[:2] in say_why if end[2] is None else is_abort(end[2]))}


def _ended(answer: Exchange) -> bool:
    """Return True if the answer ends. A compacted conversation names no model and no end.

    (developers.openai.com/api/reference/resources/responses/methods/compact)
    """
    if answer.finish_reason is not None:
        return True
    compacted = answer.api == "openai.responses" and answer.answered_model is None
    return answer.output_seen is True and not answer.pending and not compacted


def engine_aborted(measured: Measurement) -> CheckResult | None:
    """Find parts of answers with finish reason `abort` or `error`.

    Also with none where the server states them otherwise.

    Levels: `suspect`; `invalid`: the last answer, unless the agent called unknown paths of that
    engine; to be run again.

    Covered: its finish reason is known.
    """
    answers = measured.answers
    if not answers:
        return None
    ends = tally(answers, "upstream", "api", "finish_reason")
    aborts = _aborts(ends)
    looked = sum(n for end, n in ends.items() if end[2] is not None or end in aborts)
    coverage = Coverage(looked=looked, of=len(answers))
    aborted = _among(answers, aborts) if aborts else []
    if not aborted:
        return CheckResult(coverage=coverage)
    last = measured.ended_on
    ended = last is not None and any(x.id == last.id for x in aborted)
    own = _called_others(measured, aborted) or not _aborts_others(measured, aborted)
    level = Level.INVALID if ended and not own else Level.SUSPECT
    return CheckResult.found(
        coverage,
        check=ENGINE_ABORTED,
        level=level,
        calls=aborted,
        sentence=f"the engine aborted {len(aborted):,} of {plural(looked, 'answer')}"
        + (", the last one among them" if ended else ""),
        about={"finish_reasons": sorted({x.finish_reason or "none" for x in aborted})},
    )


def _called_others(measured: Measurement, aborted: Sequence[Exchange]) -> bool:
    """Return True if the agent called unknown paths of an engine that aborted."""
    upstreams = {x.upstream for x in aborted}
    return any(
        x.kind is Kind.OTHER and x.role == "agent" and x.upstream in upstreams
        for x in measured.rollout.exchanges
    )


def _aborts_others(measured: Measurement, aborted: Sequence[Exchange]) -> bool:
    """Return True if the engine failed the reference too, where agents are untrusted."""
    if not measured.facts.untrusted:
        return True
    references = measured.rollout.references
    failed = Failure(Subcategory.PROVIDER_ERROR, silent=True)
    comparisons = {compare(references.get(x.id), failed) for x in aborted}
    return bool(comparisons & {Comparison.FAILED_ALIKE, Comparison.PARTLY})


def _among(answers: Sequence[Exchange], aborts: set[_End]) -> list[Exchange]:
    return [x for x in answers if (x.upstream, x.api, x.finish_reason) in aborts and _ended(x)]


# --- error as answer ---
#
# An error that a gateway or an agent's library put where the model's words belong, with HTTP 200.
#
# Capture reads short texts without a tool call (`classifier.error_texts`), and keeps what kind of
# failure one tells of. An agent that lives on after it had a hiccup; one whose answers are all
# such, or which ended on one, was scored without its model.


ERROR_AS_ANSWER = "error_as_answer"
_said = attrgetter("output_digest")


def error_as_answer(measured: Measurement) -> CheckResult | None:
    """Find short answers on main, all of them or the last one, that are an error's message.

    By their form ("[API ERROR] HTTP 500 …", a gateway's web page), without a tool call.

    Levels: `suspect`.

    Covered: its text was seen: in a whole body, in a stream whose every event had to be read
    (short ones, Gemini's), or in the last event of a stream of the Responses API; a tool call
    is no error.
    """
    main = measured.main
    if not main:
        return None
    unsaid = [x for x in main if x.output_digest is None] if None in map(_said, main) else []
    facts = tally(unsaid, "output_reads_as", "tool_calls").items()
    unseen = sum(n for (read, calls), n in facts if read is None and not calls)  # a call is seen
    coverage = Coverage(looked=len(main) - unseen, of=len(main))
    if tally(main, "output_reads_as").keys() == {None}:
        return CheckResult(coverage=coverage)
    errors = [x for x in main if x.output_reads_as is not None]
    last = measured.ended_on
    ended = last is not None and last.output_reads_as is not None
    if not ended and len(errors) < len(main):
        return CheckResult(coverage=coverage)
    kinds = sorted({x.output_reads_as.value for x in errors if x.output_reads_as is not None})
    where = "all of them" if len(errors) == len(main) else "the last one among them"
    return CheckResult.found(
        coverage,
        check=ERROR_AS_ANSWER,
        level=Level.SUSPECT,
        calls=errors,
        sentence=f"{len(errors):,} of {plural(coverage.looked, 'answer')} read as an error "
        f"({', '.join(kinds)}) in place of a model's words, {where}",
        about={"reads_as": kinds},
    )


# --- answers identical ---
#
# One answer to prompts that grew: a cache, a stub, a mock left in place, or a model in a loop.
#
# Texts are counted wherever they stand. The same tool call again is what agents do (run the tests,
# look at a queue), so that only calls in a row count.


ANSWERS_IDENTICAL = "answers_identical"
_THRICE = 3


def answers_identical(measured: Measurement) -> CheckResult | None:
    """Find three answers or more on main that say the same although the prompt grew each time.

    A text of more than a word, wherever they stand, or tool calls in a row with the same name and
    arguments.

    Levels: `suspect`.

    Covered: its text was seen as by `error_as_answer`, more than a word or tool calls.
    """
    main = measured.main
    if not main:
        return None
    digests = Counter(map(_said, main))
    coverage = Coverage(looked=len(main) - digests.pop(None, 0), of=len(main))
    if not digests or digests.most_common(1)[0][1] < _THRICE:
        return CheckResult(coverage=coverage)
    repeated = [digest for digest, times in digests.items() if times >= _THRICE]
    alike = max((_growing(main, digest) for digest in repeated), key=len, default=[])
    if len(alike) < _THRICE:
        return CheckResult(coverage=coverage)
    what = "tool call" if alike[0].tool_calls else "text"
    return CheckResult.found(
        coverage,
        check=ANSWERS_IDENTICAL,
        level=Level.SUSPECT,
        calls=alike,
        sentence=f"{len(alike):,} of {plural(coverage.looked, 'answer')} are the same {what}, "
        "though the prompt grew each time",
        about={"answer": what},
    )


def _growing(main: Sequence[Exchange], digest: str) -> list[Exchange]:
    """Return the answers of one digest whose prompts grew; of tool calls the longest such row."""
    best: list[Exchange] = []
    row: list[Exchange] = []
    for answer in main:
        if answer.output_digest != digest:
            calls = row and row[0].tool_calls and answer.output_digest is not None
            row = [] if calls else row
        elif not row or answer.request_bytes > row[-1].request_bytes:
            row = [*row, answer]
        elif answer.request_bytes < row[-1].request_bytes:
            row = [answer]  # another conversation, or one that was made shorter
        best = max(best, row, key=len)
    return best


# --- prompt truncated ---
#
# Prompts of which the provider read a part only, and said nothing.
#
# Ollama cuts a prompt that is longer than its window (4,096 tokens unless told otherwise) and
# answers 200; the count of what was left, about half of the window, is the only sign of it
# (github.com/ollama/ollama/issues/3839, /17427, /17889). Gateways do it too (OpenRouter's
# middle-out: openrouter.ai/docs/guides/features/message-transforms).
#
# Counts fall for other reasons: cached tokens that are not counted (Ollama before 0.1.4x and in
# 0.30: github.com/ollama/ollama/pull/5371, /16428; gateways before Anthropic:
# BerriAI/litellm#9812), reasoning that a template drops from earlier answers, another tokenizer
# behind one name. Where capture saw reasoning, images, or a request that asks for less, it links no
# calls.


PROMPT_TRUNCATED = "prompt_truncated"
_FALL_SHARE, _FALL_TOKENS = 0.05, 64
_STUCK_WITHIN = 16  # tokens; two new messages have more
_GROWN_BYTES = 400
_SMALLEST_COUNT = 16  # below it, a count counts something else
_SMALLEST_WINDOW = 256
_OLLAMA_COUNT = 1024  # half of the smallest window that it had by itself, 2,048
_WORDS_PER_TOKEN, _BYTES_PER_TOKEN = 3, 12  # no tokenizer makes so few tokens
_SKIPPED = 32  # calls without a count between two that have one
_TURNS = 256  # whose answers may have been dropped since
_COUNTED_ALIKE = ("upstream", "api", "model", "answered_model", "served_by")
_alike = attrgetter(*_COUNTED_ALIKE)
_compared = attrgetter("usage.input_total", "prompt_words", "continues")
_read = attrgetter("usage.input_total")
_words = attrgetter("prompt_words")
_continues = attrgetter("continues")
_id = attrgetter("id")


class _Sign(Enum):
    """A sign that a prompt was cut. All but a fall prove it."""

    WORDS = "fewer tokens than words"
    STUCK = "the same count while it grew"
    FALL = "a smaller count while it grew"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    call: Exchange
    sign: _Sign
    before: int | None = None  # the conversation's count before it fell


def prompt_truncated(measured: Measurement) -> CheckResult | None:
    """Find that the provider read a part of a prompt.

    Levels: `invalid`: fewer than a third as many tokens as words, or one count over three
    growing calls; `suspect`: a growing conversation's count fell; one level less on side calls.

    Covered: its input was counted, and it goes on with an earlier call that was counted alike,
    or is a request of at least 8 kB, all text and tool calls; it is not compared with a call in
    which the provider compacted the conversation.
    """
    answers, exchanges = measured.answers, measured.rollout.exchanges
    if not answers:
        return None
    if not any(map(_continues, answers)) and not any(map(_words, answers)):
        return CheckResult(coverage=Coverage(looked=0, of=len(answers)))
    calls = dict(zip(map(_id, exchanges), exchanges, strict=True))
    reads = dict(zip(map(_id, exchanges), map(_read, exchanges), strict=True))
    alike = len(tally(answers, *_COUNTED_ALIKE)) == 1
    looked, cuts = 0, []
    for call, (read, words, continued) in zip(answers, map(_compared, answers), strict=True):
        if not read:
            continue
        if words is None or read * _WORDS_PER_TOKEN >= words:
            before = reads.get(continued) if alike else None
            if continued is None or (before and read > before + _STUCK_WITHIN):
                looked += continued is not None or words is not None
                continue  # it grew, as most do
        earlier = _before(call, calls)
        looked += earlier is not None or words is not None
        sign = _sign(call, earlier, calls)
        if sign is not None:
            before = None if earlier is None else earlier.usage.input_total
            cuts.append(_Cut(call=call, sign=sign, before=before))
    coverage = Coverage(looked=looked, of=len(answers))
    if not cuts:
        return CheckResult(coverage=coverage)
    return _truncation(measured, coverage, cuts)


def _before(call: Exchange, calls: Mapping[str, Exchange]) -> Exchange | None:
    """Return the nearest call that this one goes on with and whose input was counted alike."""
    earlier = call
    for _ in range(_SKIPPED):
        known = None if earlier.continues is None else calls.get(earlier.continues)
        if known is None:
            return None
        earlier = known
        if earlier.usage.input_total:
            return earlier if _alike(earlier) == _alike(call) else None
    return None


def _sign(call: Exchange, earlier: Exchange | None, calls: Mapping[str, Exchange]) -> _Sign | None:
    read = call.usage.input_total or 0
    words = call.prompt_words
    if words is not None and read * _WORDS_PER_TOKEN < words and _below_words(call, earlier):
        return _Sign.WORDS
    if earlier is None or _compacted(call) or _compacted(earlier):
        return None
    more = read - (earlier.usage.input_total or 0)
    if -_STUCK_WITHIN <= more <= _STUCK_WITHIN:
        return _Sign.STUCK if _stuck(call, earlier, calls) else None
    if more < -_FALL_TOKENS and _fell(call, earlier, calls):
        return _Sign.FALL
    return None


def _compacted(call: Exchange) -> bool:
    """Return True if the provider replaced the conversation by a summary in this call.

    Anthropic's total alone counts the tokens of that (anthropic-sdk-python:
    types/beta/beta_usage.py, ``iterations``).
    """
    usage = call.usage
    stated = (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens)
    beside = (usage.input_total or 0) > sum(each or 0 for each in stated)
    return beside and call.api.startswith("anthropic.")


def _most(usage: Usage) -> int:
    """Return the input if cached tokens were left out of it, as some gateways do."""
    beside = (usage.cached_input_tokens or 0) + (usage.cache_write_tokens or 0)
    return (usage.input_total or 0) + beside


def _states_cache(call: Exchange) -> bool:
    return call.usage.cached_input_tokens is not None


def _below_words(call: Exchange, earlier: Exchange | None) -> bool:
    """Return True if the tokens, cached ones included, are too few for the words sent."""
    if earlier is not None and not _states_cache(call):
        return False  # what is missing may be cached
    smallest = _OLLAMA_COUNT if may_hide_cache(call) else _SMALLEST_COUNT
    if (call.usage.input_total or 0) < smallest:
        return False
    most = _most(call.usage)
    few = most * _WORDS_PER_TOKEN < (call.prompt_words or 0)
    return few and most * _BYTES_PER_TOKEN < call.request_bytes


def _stuck(call: Exchange, earlier: Exchange, calls: Mapping[str, Exchange]) -> bool:
    """Return True if three ever longer calls of one conversation have the same count."""
    first = _before(earlier, calls)
    if first is None:
        return False
    three = (first, earlier, call)
    counts = [x.usage.input_total or 0 for x in three]
    smallest = _OLLAMA_COUNT if may_hide_cache(call) else _SMALLEST_WINDOW
    if max(counts) - min(counts) > _STUCK_WITHIN or min(counts) < smallest:
        return False
    if any(_most(x.usage) > 2 * (x.usage.input_total or 0) for x in three):
        return False  # all but a constant rest is cached, and counted beside it
    sizes = [x.request_bytes for x in three]
    return all(b - a >= _GROWN_BYTES for a, b in pairwise(sizes))


def _fell(call: Exchange, earlier: Exchange, calls: Mapping[str, Exchange]) -> bool:
    """Return True if more was sent but the count fell by more than caches and reasoning explain."""
    if call.request_bytes <= earlier.request_bytes:
        return False  # the agent cut it: old results of tools, mostly
    if may_hide_cache(call) or (call.model or "").endswith(":online"):
        return False  # OpenRouter's web search puts other pages into each prompt
    usage = earlier.usage
    before = usage.input_total or 0
    if call.api.startswith("gemini.") and usage.input_tokens is not None:
        before = usage.input_tokens  # without what its tools read, which is sent no more
    fall = before - _most(call.usage)
    if fall <= _FALL_TOKENS or fall <= before * _FALL_SHARE or _looked_up(earlier, calls):
        return False
    for answer in _answers_in(earlier, calls):
        fall -= output_tokens(answer) or 0
        if fall <= 0:
            return False
    return True


def _looked_up(call: Exchange, calls: Mapping[str, Exchange]) -> bool:
    """Return True if more tokens were counted than bytes sent: the provider read pages of its own.

    Anthropic counts what its search found as input of the call
    (platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool, usage and pricing).
    """
    first = _before(call, calls)
    tokens, size = call.usage.input_total or 0, call.request_bytes
    if first is not None:
        tokens, size = tokens - (first.usage.input_total or 0), size - first.request_bytes
    return tokens > max(size, 0)


def _answers_in(call: Exchange, calls: Mapping[str, Exchange]) -> Iterator[Exchange]:
    """Yield a call and those that it goes on with: their answers stand in what comes next."""
    at: Exchange | None = call
    for _ in range(_TURNS):
        if at is None:
            return
        yield at
        at = None if at.continues is None else calls.get(at.continues)


def _truncation(measured: Measurement, coverage: Coverage, cuts: list[_Cut]) -> CheckResult:
    main = {x.id for x in measured.main}
    proven = [cut for cut in cuts if cut.sign is not _Sign.FALL]
    worst = [cut for cut in proven or cuts if cut.call.id in main] or proven or cuts
    last = worst[-1]
    were = _were(len(cuts), bool(proven))
    return CheckResult.found(
        coverage,
        check=PROMPT_TRUNCATED,
        level=_level(proven=bool(proven), main=last.call.id in main),
        calls=[cut.call for cut in cuts],
        proof=[cut.call for cut in worst],
        sentence=f"{len(cuts):,} of {plural(coverage.looked, 'prompt')} {were} read in part only: "
        f"{_told(last)}",
        about={
            "read_tokens": last.call.usage.input_total,
            **{sign.name.lower(): sum(cut.sign is sign for cut in cuts) for sign in _Sign},
        },
    )


def _level(*, proven: bool, main: bool) -> Level:
    if proven:
        return Level.INVALID if main else Level.SUSPECT
    return Level.SUSPECT if main else Level.INFO


def _were(count: int, proven: bool) -> str:
    verb = "was" if count == 1 else "were"
    return verb if proven else f"{verb} probably"


def _told(cut: _Cut) -> str:
    read = plural(cut.call.usage.input_total or 0, "token")
    if cut.sign is _Sign.WORDS:
        return f"{read} were counted of at least {cut.call.prompt_words:,} words"
    if cut.sign is _Sign.STUCK:
        return f"{read} were counted while the conversation grew twice"
    return f"the count fell from {cut.before:,} to {read} while the conversation grew"

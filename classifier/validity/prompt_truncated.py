"""Prompts of which the provider read a part only, and said nothing.

Ollama cuts a prompt that is longer than its window (4,096 tokens unless told otherwise) and
answers 200; the count of what was left, about half of the window, is the only sign of it
(github.com/ollama/ollama/issues/3839, /17427, /17889). Gateways do it too (OpenRouter's
middle-out: openrouter.ai/docs/guides/features/message-transforms).

Counts fall for other reasons: cached tokens that are not counted (Ollama before 0.1.4x and in
0.30: github.com/ollama/ollama/pull/5371, /16428; gateways before Anthropic: BerriAI/litellm#9812),
reasoning that a template drops from earlier answers, another tokenizer behind one name. Where
capture saw reasoning, images, or a request that asks for less, it links no calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from operator import attrgetter

from classifier.logical_calls import output_tokens
from classifier.records import Exchange, Usage
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, may_hide_cache, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

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
    """What shows that a prompt was cut; all but a fall prove it."""

    WORDS = "fewer tokens than words"
    STUCK = "the same count while it grew"
    FALL = "a smaller count while it grew"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    call: Exchange
    sign: _Sign
    before: int | None = None  # the conversation's count before it fell


def prompt_truncated(measured: Measurement) -> Looked | None:
    """Compare the tokens that were read with the words that were sent, and with those before."""
    answers, exchanges = measured.answers, measured.rollout.exchanges
    if not answers:
        return None
    if not any(map(_continues, answers)) and not any(map(_words, answers)):
        return Looked(coverage=Coverage(looked=0, of=len(answers)))
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
        return Looked(coverage=coverage)
    return Looked(coverage=coverage, finding=_truncation_finding(measured, cuts, looked))


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
    if earlier is None:
        return None
    more = read - (earlier.usage.input_total or 0)
    if -_STUCK_WITHIN <= more <= _STUCK_WITHIN:
        return _Sign.STUCK if _stuck(call, earlier, calls) else None
    if more < -_FALL_TOKENS and _fell(call, earlier, calls):
        return _Sign.FALL
    return None


def _most(usage: Usage) -> int:
    """Return the input if cached tokens were left out of it, as some gateways do."""
    beside = (usage.cached_input_tokens or 0) + (usage.cache_write_tokens or 0)
    return (usage.input_total or 0) + beside


def _states_cache(call: Exchange) -> bool:
    return call.usage.cached_input_tokens is not None


def _below_words(call: Exchange, earlier: Exchange | None) -> bool:
    """Whether even with all that may be cached there are too few tokens for the words sent."""
    if earlier is not None and not _states_cache(call):
        return False  # what is missing may be cached
    smallest = _OLLAMA_COUNT if may_hide_cache(call) else _SMALLEST_COUNT
    if (call.usage.input_total or 0) < smallest:
        return False
    most = _most(call.usage)
    few = most * _WORDS_PER_TOKEN < (call.prompt_words or 0)
    return few and most * _BYTES_PER_TOKEN < call.request_bytes


def _stuck(call: Exchange, earlier: Exchange, calls: Mapping[str, Exchange]) -> bool:
    """Whether three calls of one conversation, each longer, have one count."""
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
    """Whether the count fell, while more was sent, by more than caches and reasoning explain."""
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
    """Whether more tokens were counted than bytes sent: the provider read pages of its own.

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


def _truncation_finding(measured: Measurement, cuts: list[_Cut], of: int) -> ValidityFinding:
    main = {x.id for x in measured.main}
    proven = [cut for cut in cuts if cut.sign is not _Sign.FALL]
    worst = [cut for cut in proven or cuts if cut.call.id in main] or proven or cuts
    last = worst[-1]
    return ValidityFinding(
        check=PROMPT_TRUNCATED,
        level=_level(proven=bool(proven), main=last.call.id in main),
        calls=len(cuts),
        of=of,
        evidence=ids_of([cut.call for cut in worst]),
        sentence=f"{len(cuts):,} of {plural(of, 'prompt')} {_were(len(cuts), bool(proven))} read "
        f"in part only: {_told(last)}",
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

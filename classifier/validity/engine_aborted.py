"""An engine stopped in the middle of an answer, and said so only in its finish reason.

vLLM and SGLang end a request with ``abort`` when they pause for a weight update, are drained or
drop it (vllm: ``vllm/v1/request.py`` ``RequestStatus``; sglang: ``FINISH_ABORT`` in
``python/sglang/srt/managers/schedule_batch.py``). The answer has HTTP 200 and a part of a text; one
without is no answer but a failed call (`Flaw.ABORTED`). Some leave the reason out; a server that
never states one proves nothing by that. What was aborted may well succeed when it is run again.

SGLang aborts whatever ``POST /abort_request`` names, so that an agent which called other paths of
the same engine may have done it itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from classifier.logical_calls import is_abort
from classifier.records import Exchange, Kind
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

ENGINE_ABORTED = "engine_aborted"
# Dialects in which a whole answer has a finish reason.
_ALWAYS_SAYS_WHY = frozenset(
    ("openai.chat", "openai.responses", "anthropic.messages", "gemini.generateContent")
)
_End = tuple[str, str, str | None]  # upstream, api, finish reason


def _aborts(ends: Collection[_End]) -> set[_End]:
    """Return those that are aborts: a reason that says so, or none where others have one."""
    say_why = {end[:2] for end in ends if end[2] and end[1] in _ALWAYS_SAYS_WHY}
    return {end for end in ends if (end[:2] in say_why if end[2] is None else is_abort(end[2]))}


def _ended(answer: Exchange) -> bool:
    """Whether it is an answer that ends; a compacted conversation names no model and no end.

    (developers.openai.com/api/reference/resources/responses/methods/compact)
    """
    if answer.finish_reason is not None:
        return True
    compacted = answer.api == "openai.responses" and answer.answered_model is None
    return answer.output_seen is True and not answer.pending and not compacted


def engine_aborted(measured: Measurement) -> Looked | None:
    """Find answers whose finish reason is an abort, or that have none where others have."""
    answers = measured.answers
    if not answers:
        return None
    ends = tally(answers, "upstream", "api", "finish_reason")
    aborts = _aborts(ends)
    looked = sum(n for end, n in ends.items() if end[2] is not None or end in aborts)
    coverage = Coverage(looked=looked, of=len(answers))
    aborted = _among(answers, aborts) if aborts else []
    if not aborted:
        return Looked(coverage=coverage)
    last = measured.ended_on
    ended = last is not None and any(x.id == last.id for x in aborted)
    level = Level.INVALID if ended and not _called_others(measured, aborted) else Level.SUSPECT
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=ENGINE_ABORTED,
            level=level,
            calls=len(aborted),
            of=looked,
            evidence=ids_of(aborted),
            sentence=f"the engine aborted {len(aborted):,} of {plural(looked, 'answer')}"
            + (", the last one among them" if ended else ""),
            about={"finish_reasons": sorted({x.finish_reason or "none" for x in aborted})},
        ),
    )


def _called_others(measured: Measurement, aborted: Sequence[Exchange]) -> bool:
    """Whether the agent called unknown paths of an engine that aborted."""
    upstreams = {x.upstream for x in aborted}
    return any(
        x.kind is Kind.OTHER and x.role == "agent" and x.upstream in upstreams
        for x in measured.rollout.exchanges
    )


def _among(answers: Sequence[Exchange], aborts: set[_End]) -> list[Exchange]:
    return [x for x in answers if (x.upstream, x.api, x.finish_reason) in aborts and _ended(x)]

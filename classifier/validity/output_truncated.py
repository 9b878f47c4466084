"""Answers that were cut by a limit of tokens, and scored as if the model had finished.

Finish reasons: see ``logical_calls``. One evaluation lost 19-37 % of its answers to the limit and
read 0.241 where whole answers scored 0.956 (github.com/allenai/olmo-eval/issues/399, 2026-09).
A cut before the request's own limit is the engine's: its window was full, or it has a smaller
limit of its own (Ollama's window of 4,096: github.com/NousResearch/hermes-agent/issues/43900).
"""

from __future__ import annotations

from classifier.logical_calls import CUT_SHORT, bare_reason, output_tokens
from classifier.records import Exchange, UsageSource
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

OUTPUT_TRUNCATED = "output_truncated"
_FEW = 16  # tokens; who asks for so few wants no whole answer (probes, multiple choice)
_SHARE = 0.95  # of a limit; Gemini ends some tokens before its own


def _early(answer: Exchange) -> bool:
    """Whether it was cut clearly below the limit that the request set."""
    limit, usage = answer.output_limit, answer.usage
    if limit is None or usage.output_total is None or usage.source is not UsageSource.PROVIDER:
        return False
    made = usage.output_total
    if usage.total_tokens is not None and usage.input_total is not None:
        # Reasoning that only the total counts (Gemini, xAI) was bought of the limit too.
        made = max(made, usage.total_tokens - usage.input_total)
    return _FEW <= made < limit * _SHARE and made + _FEW <= limit


def _matters(answer: Exchange, last: Exchange | None) -> bool:
    """Whether what was cut is a tool call, or the answer that the rollout ended on."""
    if answer.tool_calls:
        return True
    # An unknown limit was no higher than what was written.
    limit = output_tokens(answer) if answer.output_limit is None else answer.output_limit
    return last is not None and answer.id == last.id and (limit is None or limit > _FEW)


def output_truncated(measured: Measurement) -> Looked | None:
    """Find the main lane's answers that end in a limit."""
    main = measured.main
    if not main:
        return None
    reasons = tally(main, "finish_reason")
    coverage = Coverage(looked=len(main) - reasons[None], of=len(main))
    limits = {reason for reason in reasons if bare_reason(reason) in CUT_SHORT}
    if not limits:
        return Looked(coverage=coverage)
    cut = [x for x in main if x.finish_reason in limits]
    early = [x for x in cut if _early(x)]
    mattered = [x for x in cut if _matters(x, measured.ended_on)]
    level = Level.INVALID if early else Level.SUSPECT if mattered else Level.INFO
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=OUTPUT_TRUNCATED,
            level=level,
            calls=len(cut),
            of=coverage.looked,
            evidence=ids_of(early or mattered or cut),
            sentence=_sentence(cut, early, mattered, coverage.looked),
            about={"below_limit": len(early), "last_or_tool_call": len(mattered)},
        ),
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

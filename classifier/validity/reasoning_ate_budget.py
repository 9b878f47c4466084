"""Answers that are all reasoning: the limit was reached before a word or a tool call was written.

Reasoning is paid for out of the limit of the answer: platform.openai.com/docs/guides/reasoning
("status: incomplete"), ai.google.dev/gemini-api/docs/thinking. An evaluation with a limit of 16
read accuracy 0.000 with status success (github.com/UKGovernmentBEIS/inspect_evals/pull/2474).
"""

from __future__ import annotations

from classifier.logical_calls import CUT_SHORT, bare_reason, has_content, output_tokens
from classifier.records import Exchange
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

REASONING_ATE_BUDGET = "reasoning_ate_budget"
_PROBE = 16  # tokens; a request that allows fewer asks for no answer


def _all_reasoning(answer: Exchange) -> bool:
    if has_content(answer) is not False:
        return False
    if answer.output_limit is not None and answer.output_limit < _PROBE:
        return False
    seen = answer.output_seen or answer.usage.reasoning_tokens
    return bool(seen or output_tokens(answer))


def reasoning_ate_budget(measured: Measurement) -> Looked | None:
    """Find the main lane's answers of reasoning only, cut by their limit."""
    main = measured.main
    if not main:
        return None
    unread = tally(main, "output_seen")[None]
    coverage = Coverage(looked=len(main) - unread, of=len(main))
    reasons = tally(main, "finish_reason")
    limits = {reason for reason in reasons if bare_reason(reason) in CUT_SHORT}
    eaten = [x for x in main if x.finish_reason in limits and _all_reasoning(x)] if limits else []
    if not eaten:
        return Looked(coverage=coverage)
    last = output_tokens(eaten[-1])
    spent = "" if last is None else f", the last one after {plural(last, 'token')}"
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=REASONING_ATE_BUDGET,
            level=Level.SUSPECT,
            calls=len(eaten),
            of=coverage.looked,
            evidence=ids_of(eaten),
            sentence=f"reasoning used up the limit of {len(eaten):,} of "
            f"{plural(coverage.looked, 'answer')} before any text or tool call{spent}",
            about={"output_tokens": last, "limit": eaten[-1].output_limit},
        ),
    )

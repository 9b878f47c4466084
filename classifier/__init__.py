"""Classify rollouts: recorded calls in, a verdict with evidence out; standard library only.

No file, socket or database is opened; time and randomness are arguments.
"""

from classifier.causes import classify, status_only
from classifier.records import (
    Answer,
    Attribution,
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    Flaw,
    Kind,
    Outcome,
    ProviderError,
    RolloutRecord,
    TerminationReason,
    Timing,
    Usage,
    UsageSource,
)
from classifier.results import OutcomeError, Result, result, validate
from classifier.retries import advise
from classifier.rules import judge
from classifier.verdicts import (
    EVIDENCE,
    POLICIES,
    SEED,
    Health,
    Layer,
    Policy,
    Retry,
    Subcategory,
    Verdict,
)

__all__ = [
    "EVIDENCE",
    "POLICIES",
    "SEED",
    "Answer",
    "Attribution",
    "Cause",
    "Ending",
    "Exchange",
    "ExecutionStatus",
    "Flaw",
    "Health",
    "Kind",
    "Layer",
    "Outcome",
    "OutcomeError",
    "Policy",
    "ProviderError",
    "Result",
    "Retry",
    "RolloutRecord",
    "Subcategory",
    "TerminationReason",
    "Timing",
    "Usage",
    "UsageSource",
    "Verdict",
    "advise",
    "classify",
    "judge",
    "result",
    "status_only",
    "validate",
]

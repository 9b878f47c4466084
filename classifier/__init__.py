"""Classify rollouts: recorded calls in, a verdict with evidence out; standard library only.

No socket, database or file is opened, but for the tables that come with it (``classifier/data``);
time and randomness are arguments.
"""

import warnings
from typing import TYPE_CHECKING

from classifier.causes import classify, status_only
from classifier.records import (
    Attribution,
    Cause,
    Ending,
    Exchange,
    ExecutionStatus,
    FailureEvidence,
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
    "Attribution",
    "Cause",
    "Ending",
    "Exchange",
    "ExecutionStatus",
    "FailureEvidence",
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

if not TYPE_CHECKING:  # a type checker shall find misspelled names

    def __getattr__(name):
        if name != "Answer":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn("Answer is called FailureEvidence now", DeprecationWarning, stacklevel=2)
        return FailureEvidence

"""Classify rollouts: recorded calls in, a verdict with evidence out; standard library only.

No file, socket or database is opened; time and randomness are arguments. Names are loaded when
they are first used, so that importing one module costs that module alone.
"""

import importlib
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_ELSEWHERE = {
    **dict.fromkeys(("classify", "status_only"), "causes"),
    **dict.fromkeys(("OutcomeError", "Result", "result", "validate"), "results"),
    "advise": "retries",
    "judge": "rules",
    **dict.fromkeys(("EVIDENCE", "POLICIES", "SEED", "Health", "Layer", "Policy"), "verdicts"),
    **dict.fromkeys(("Retry", "Subcategory", "Verdict"), "verdicts"),
}

if not TYPE_CHECKING:  # a type checker shall find misspelled names

    def __getattr__(name):
        if name == "Answer":
            warnings.warn("Answer is called FailureEvidence now", DeprecationWarning, stacklevel=2)
            name = "FailureEvidence"
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"{__name__}.{_ELSEWHERE.get(name, 'records')}")
        attribute = getattr(module, name)
        globals()[name] = attribute  # asked for once
        return attribute

    def __dir__():
        return sorted({*globals(), *__all__})

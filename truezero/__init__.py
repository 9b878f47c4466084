"""The runner's side of truezero: the REST contract, a client and the command line.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truezero.one_answer import CauseOfFailure, cause_of
    from truezero.sdk._async.batches import AsyncBatch
    from truezero.sdk._async.client import AsyncClient
    from truezero.sdk._async.rollouts import AsyncRollout
    from truezero.sdk._sync.batches import Batch
    from truezero.sdk._sync.client import Client
    from truezero.sdk._sync.rollouts import Rollout
    from truezero.sdk.batches import BatchRun, FinishedSample
    from truezero.sdk.current import carry, current, headers, httpx_hook
    from truezero.sdk.errors import MeasuringStopped, NotMeasured, ServiceError, Undelivered
    from truezero.sdk.events import Event
    from truezero.sdk.outcomes import outcomes_left
    from truezero.sdk.rollouts import (
        AgentError,
        AlreadyMeasured,
        EnvironmentError,
        EvaluationFailed,
        ExecutionError,
        ExecutionLoop,
        SetupFailed,
        Skipped,
        TaskTimeout,
        UserError,
    )

__all__ = [
    "AgentError",
    "AlreadyMeasured",
    "AsyncBatch",
    "AsyncClient",
    "AsyncRollout",
    "Batch",
    "BatchRun",
    "CauseOfFailure",
    "Client",
    "EnvironmentError",
    "EvaluationFailed",
    "Event",
    "ExecutionError",
    "ExecutionLoop",
    "FinishedSample",
    "MeasuringStopped",
    "NotMeasured",
    "Rollout",
    "ServiceError",
    "SetupFailed",
    "Skipped",
    "TaskTimeout",
    "Undelivered",
    "UserError",
    "carry",
    "cause_of",
    "current",
    "headers",
    "httpx_hook",
    "outcomes_left",
]

_ELSEWHERE = {
    "AsyncBatch": "sdk._async.batches",
    "AsyncClient": "sdk._async.client",
    "AsyncRollout": "sdk._async.rollouts",
    "Batch": "sdk._sync.batches",
    "BatchRun": "sdk.batches",
    "CauseOfFailure": "one_answer",
    "Client": "sdk._sync.client",
    "Event": "sdk.events",
    "FinishedSample": "sdk.batches",
    "MeasuringStopped": "sdk.errors",
    "NotMeasured": "sdk.errors",
    "Rollout": "sdk._sync.rollouts",
    "ServiceError": "sdk.errors",
    "Undelivered": "sdk.errors",
    "carry": "sdk.current",
    "cause_of": "one_answer",
    "current": "sdk.current",
    "headers": "sdk.current",
    "httpx_hook": "sdk.current",
    "outcomes_left": "sdk.outcomes",
}


def __getattr__(name: str) -> Any:
    if name == "Ran":
        warnings.warn("Ran is called FinishedSample now", DeprecationWarning, stacklevel=2)
        name = "FinishedSample"
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_ELSEWHERE.get(name, 'sdk.rollouts')}")
    attribute = getattr(module, name)
    globals()[name] = attribute  # asked for once
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

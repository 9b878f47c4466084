"""The runner's side of truezero: the REST contract, a client and the command line.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truezero.sdk.batches import AsyncBatch, Batch, BatchRun, Ran
    from truezero.sdk.client import AsyncClient, Client
    from truezero.sdk.current import carry, current, headers, httpx_hook
    from truezero.sdk.errors import ServiceError, Undelivered
    from truezero.sdk.events import Event
    from truezero.sdk.outcomes import outcomes_left
    from truezero.sdk.rollouts import (
        AgentError,
        AsyncRollout,
        EnvironmentError,
        EvaluationFailed,
        ExecutionError,
        ExecutionLoop,
        Rollout,
        SetupFailed,
        Skipped,
        TaskTimeout,
        UserError,
    )

__all__ = [
    "AgentError",
    "AsyncBatch",
    "AsyncClient",
    "AsyncRollout",
    "Batch",
    "BatchRun",
    "Client",
    "EnvironmentError",
    "EvaluationFailed",
    "Event",
    "ExecutionError",
    "ExecutionLoop",
    "Ran",
    "Rollout",
    "ServiceError",
    "SetupFailed",
    "Skipped",
    "TaskTimeout",
    "Undelivered",
    "UserError",
    "carry",
    "current",
    "headers",
    "httpx_hook",
    "outcomes_left",
]

_ELSEWHERE = {
    "AsyncBatch": "sdk.batches",
    "AsyncClient": "sdk.client",
    "Batch": "sdk.batches",
    "BatchRun": "sdk.batches",
    "Client": "sdk.client",
    "Event": "sdk.events",
    "ExecutionLoop": "sdk.rollouts",
    "Ran": "sdk.batches",
    "ServiceError": "sdk.errors",
    "Undelivered": "sdk.errors",
    "carry": "sdk.current",
    "current": "sdk.current",
    "headers": "sdk.current",
    "httpx_hook": "sdk.current",
    "outcomes_left": "sdk.outcomes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_ELSEWHERE.get(name, 'sdk.rollouts')}")
    attribute = getattr(module, name)
    globals()[name] = attribute  # asked for once
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

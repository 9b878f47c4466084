"""Calls and parameters of the last release, for one release.

A call is answered 410 and a sentence that says what to use; a parameter has no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any, NoReturn

from fastapi import APIRouter

from proxy.routing.errors import Refusal

log = logging.getLogger("truezero")


def gone(calls: Sequence[tuple[str, str, str]]) -> APIRouter:
    """Return routes that the OpenAPI document leaves out; they come before those with a path.

    Arguments:
        calls: of each the method, the path as a route has it, and what takes its place.
    """
    router = APIRouter(include_in_schema=False)
    for method, path, instead in calls:
        router.add_api_route(
            path, _refusing(f"{method} {path}: {instead}"), methods=[method], response_model=None
        )
    return router


def _refusing(sentence: str) -> Callable[[], Coroutine[Any, Any, NoReturn]]:
    async def refuse() -> NoReturn:
        raise Refusal(410, "gone", f"this call is gone: {sentence}")

    return refuse


@cache
def log_gone(parameter: str, instead: str) -> None:
    """Log that a parameter that was given is gone, once in each process.

    Arguments:
        instead: what to do now, a clause without a full stop.
    """
    log.warning("%s is gone, and has no effect: %s", parameter, instead)

"""Calls and parameters of the last release, for one release.

A call is answered 410 and a sentence that says what to use; a parameter has no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

from fastapi import APIRouter, Header

from proxy.routing.errors import Refusal

log = logging.getLogger("truezero")

# Method, path as a route has it, and what takes its place.
CALLS: Sequence[tuple[str, str, str]] = (
    (
        "POST",
        "/batches/{batch:path}/card/disclosure",
        "a card names the digest of its export, which `truezero card verify` checks",
    ),
)


def gone(calls: Sequence[tuple[str, str, str]] = CALLS) -> APIRouter:
    """Return routes that the OpenAPI document leaves out; they come before those with a path."""
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


async def refuse_card_events(accept: Annotated[str, Header(include_in_schema=False)] = "") -> None:
    """Refuse the events of a card in the making.

    Raises:
        Refusal: 410 for `Accept: text/event-stream`.
    """
    if "text/event-stream" in accept:
        raise Refusal(410, "gone", "a card has no events any more: ask for it as application/json")


@cache
def log_gone(parameter: str, instead: str) -> None:
    """Log that a parameter that was given is gone, once in each process.

    Arguments:
        instead: what to do now, a clause without a full stop.
    """
    log.warning("%s is gone, and has no effect: %s", parameter, instead)

"""What the sync and the async client share: endpoints as methods, and connection settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

import httpx

from truezero.sdk import endpoints, outcomes
from truezero.sdk.current import DEFAULT_URL
from truezero.sdk.errors import ServiceError, checked_url, refused, unreachable
from truezero.sdk.rollouts import AsyncPlayer, SyncPlayer
from truezero.sdk.steps import Request, Story, read

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100)
# Addresses reached directly, whatever HTTP_PROXY says: patterns of httpx's ``mounts``.
DIRECT = ("all://127.0.0.1", "all://localhost", "all://[::1]")

P = ParamSpec("P")
T = TypeVar("T")


class _Endpoint(Generic[P, T]):
    """A method of both clients made of one generator: it blocks in one, is awaited in the other."""

    def __init__(self, story: Callable[P, Story[T]]) -> None:
        self._story = story
        self.__doc__ = story.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Story[T]]: ...
    @overload
    def __get__(self, client: SyncPlayer, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncPlayer, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        story = self._story
        if client is None:
            return story

        @wraps(story)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.play(story(*args, **kwargs))

        return method


class BaseClient:
    """Endpoints and connection settings that both clients share."""

    greet = _Endpoint(endpoints.greet)
    register = _Endpoint(endpoints.register)
    register_many = _Endpoint(endpoints.register_many)
    report = _Endpoint(endpoints.report)
    ended = _Endpoint(endpoints.ended)
    verdict = _Endpoint(endpoints.verdict)
    result = _Endpoint(endpoints.result)
    exchanges = _Endpoint(endpoints.exchanges)
    rollouts = _Endpoint(endpoints.rollouts)
    rollout_page = _Endpoint(endpoints.rollout_page)
    batch_page = _Endpoint(endpoints.batch_page)
    summary = _Endpoint(endpoints.summary)
    check = _Endpoint(endpoints.check)
    groups = _Endpoint(endpoints.groups)
    compare = _Endpoint(endpoints.compare)
    rerun = _Endpoint(endpoints.rerun)
    usage = _Endpoint(endpoints.usage)
    breaker = _Endpoint(endpoints.breaker)
    reset_breaker = _Endpoint(endpoints.reset_breaker)
    fingerprints = _Endpoint(endpoints.fingerprints)

    def __init__(
        self,
        url: str | None,
        token: str | None,
        timeout_s: float,
        *,
        keep_outcomes: bool,
        clock: Callable[[], float],
    ) -> None:
        self.url = checked_url((url or os.environ.get("TRUEZERO_URL") or DEFAULT_URL).rstrip("/"))
        self._terms = outcomes.DeliveryTerms(
            url=self.url,
            folder=outcomes.folder(),
            patience_s=outcomes.patience_s(),
            timeout_s=timeout_s,
            clock=clock,
            keeps=keep_outcomes,
        )
        token = token or os.environ.get("TRUEZERO_ADMIN_TOKEN")
        self._settings: dict[str, Any] = {
            "base_url": self.url,
            "headers": {"authorization": f"Bearer {token}"} if token else {},
            "timeout": timeout_s,
            "limits": _LIMITS,
            "mounts": dict.fromkeys(DIRECT),
        }

    def _read(self, request: Request[T], response: httpx.Response) -> T:
        if response.is_error:
            raise refused(response.status_code, response.content, self.url)
        answer = read(request, response.content, self.url, response.status_code)
        outcomes.answered(self._terms.service)
        return answer

    @staticmethod
    def _timeout(request: Request[Any]) -> Any:
        return httpx.USE_CLIENT_DEFAULT if request.timeout_s is None else request.timeout_s

    def _unreachable(self, error: httpx.HTTPError) -> ServiceError:
        return unreachable(self.url, error)

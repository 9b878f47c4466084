"""Sync and async clients of the REST API, for runners and for the command line.

A service that does not answer is an error, never a healthy verdict.
"""

from __future__ import annotations

import os
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
)
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

import httpx

from truezero import models
from truezero.sdk import endpoints, outcomes
from truezero.sdk.arguments import LaneFacts, RolloutFilters
from truezero.sdk.batches import AsyncBatch, Batch
from truezero.sdk.current import DEFAULT_URL
from truezero.sdk.errors import ServiceError, checked_url, refused, unreachable
from truezero.sdk.events import Event, Events
from truezero.sdk.rollouts import AsyncPlayer, SyncPlayer
from truezero.sdk.steps import AskTerms, Pause, Request, Step, Story, Work, present, read

# --- base client ---
#
# Endpoints as methods, and connection settings, for both clients.


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


# --- clients ---


__all__ = ["DEFAULT_URL", "AsyncClient", "Client", "ServiceError"]

_STREAM_S = httpx.Timeout(10.0)  # a live stream sends several heartbeats a second
_RECONNECT_S = 1.0


class Client(BaseClient):
    """A client of one service; safe to share between threads.

    Every method raises ``ServiceError`` if the service is unreachable or rejects the request, and
    so does making one with an address that is no URL.

    Arguments:
        url: by default ``TRUEZERO_URL``, else the address ``truezero serve`` listens on.
        token: by default ``TRUEZERO_ADMIN_TOKEN``; required if the service has one.
        timeout_s: timeout of one request, in seconds.
        keep_outcomes: keep an outcome while the service is away, and wait for it.
        transport, sleep, clock: for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        keep_outcomes: bool = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(url, token, timeout_s, keep_outcomes=keep_outcomes, clock=clock)
        self._sleep = sleep
        self._http = httpx.Client(transport=transport, **self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def batch(self, name: str, **facts: Unpack[LaneFacts]) -> Batch:
        """Return a batch; ``facts`` (model, upstream, …) apply to each of its rollouts."""
        return Batch(self, name, facts)

    def events(
        self, batch: str, *, after: int | None = None, alive: bool = False
    ) -> Iterator[Event]:
        """Follow a batch's events from now on, or after an event's id; never ends by itself.

        ``alive`` also yields heartbeats, several a second.
        """
        reader = Events(batch, after)
        while True:
            try:
                for event in self._connection(reader):
                    if alive or event.kind != "alive":
                        yield event
            except httpx.HTTPError as error:
                reader.lost(self.url, error)
            self._sleep(_RECONNECT_S)

    def iter_rollouts(self, **filters: Unpack[RolloutFilters]) -> Iterator[models.RolloutItem]:
        """Yield rollouts that match the filters, page by page as they are taken."""
        after: str | None = None
        while True:
            page = self.rollout_page(after=after, **filters)
            yield from page.items
            after = page.next
            if after is None:
                return

    def iter_batches(self) -> Iterator[models.BatchItem]:
        """Yield batches, the newest first, page by page as they are taken."""
        after: str | None = None
        while True:
            page = self.batch_page(after=after)
            yield from page.items
            after = page.next
            if after is None:
                return

    def rollouts_csv(self, **filters: Unpack[RolloutFilters]) -> Iterator[str]:
        """Yield rollouts that match the filters as a CSV file, a line at a time."""
        yield from self._lines(endpoints.ROLLOUTS, filters, endpoints.CSV)

    def export(self, *, batch: str | None = None) -> Iterator[str]:
        """Export what `truezero classify` needs, as JSON lines: one batch, or all."""
        yield from self._lines(endpoints.EXPORT, present(batch=batch), {})

    def _lines(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[str]:
        try:
            with self._http.stream("GET", path, params=params, headers=headers) as response:
                if response.is_error:
                    raise refused(response.status_code, response.read(), self.url)
                yield from response.iter_lines()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def play(self, story: Story[T], *, sleep: Callable[[float], object] | None = None) -> T:
        """Run an endpoint's generator to its end; ``sleep`` takes seconds."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = story.send(answer) if error is None else story.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            answer, error = None, None
            try:
                answer = self._take(step, sleep or self._sleep)
            except BaseException as raised:
                if not isinstance(step, Request):
                    raise
                error = raised  # what is asked for may go on without the answer

    def _take(self, step: Step, sleep: Callable[[float], object]) -> Any:
        match step:
            case Request():
                return self._read(step, self._send(step))
            case AskTerms():
                return self._terms
            case Pause():
                return sleep(step.seconds)
            case Work():
                return step.do()

    def _send(self, request: Request[Any]) -> httpx.Response:
        try:
            return self._http.request(
                request.method,
                request.path,
                params=request.params,
                json=request.body,
                timeout=self._timeout(request),
            )
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _connection(self, reader: Events) -> Iterator[Event]:
        with self._http.stream(
            "GET", reader.path, params=reader.params, timeout=_STREAM_S
        ) as response:
            if response.is_error:
                raise refused(response.status_code, response.read(), self.url)
            for line in response.iter_lines():
                if event := reader.line(line):
                    yield event


async def _sleep(seconds: float) -> None:
    """Sleep under asyncio and trio alike; harnesses use both."""
    import anyio  # noqa: PLC0415  httpx, which needs it, loads it as late

    await anyio.sleep(seconds)


class AsyncClient(BaseClient):
    """The same for asyncio: methods that block in ``Client`` are awaited here.

    Arguments: as for ``Client``; ``sleep`` is awaited.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        keep_outcomes: bool = True,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = _sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(url, token, timeout_s, keep_outcomes=keep_outcomes, clock=clock)
        self._sleep = sleep
        self._http = httpx.AsyncClient(transport=transport, **self._settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def batch(self, name: str, **facts: Unpack[LaneFacts]) -> AsyncBatch:
        """Return a batch; ``facts`` (model, upstream, …) apply to each of its rollouts."""
        return AsyncBatch(self, name, facts)

    async def events(
        self, batch: str, *, after: int | None = None, alive: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Follow a batch's events, like ``Client.events``."""
        reader = Events(batch, after)
        while True:
            try:
                async for event in self._connection(reader):
                    if alive or event.kind != "alive":
                        yield event
            except httpx.HTTPError as error:
                reader.lost(self.url, error)
            await self._sleep(_RECONNECT_S)

    async def iter_rollouts(
        self, **filters: Unpack[RolloutFilters]
    ) -> AsyncIterator[models.RolloutItem]:
        """Yield rollouts that match the filters, like ``Client.iter_rollouts``."""
        after: str | None = None
        while True:
            page = await self.rollout_page(after=after, **filters)
            for item in page.items:
                yield item
            after = page.next
            if after is None:
                return

    async def iter_batches(self) -> AsyncIterator[models.BatchItem]:
        """Yield batches, like ``Client.iter_batches``."""
        after: str | None = None
        while True:
            page = await self.batch_page(after=after)
            for item in page.items:
                yield item
            after = page.next
            if after is None:
                return

    async def rollouts_csv(self, **filters: Unpack[RolloutFilters]) -> AsyncIterator[str]:
        """Yield rollouts that match the filters as a CSV file, a line at a time."""
        async for line in self._lines(endpoints.ROLLOUTS, filters, endpoints.CSV):
            yield line

    async def export(self, *, batch: str | None = None) -> AsyncIterator[str]:
        """Export what `truezero classify` needs, like ``Client.export``."""
        async for line in self._lines(endpoints.EXPORT, present(batch=batch), {}):
            yield line

    async def _lines(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[str]:
        try:
            async with self._http.stream("GET", path, params=params, headers=headers) as response:
                if response.is_error:
                    raise refused(response.status_code, await response.aread(), self.url)
                async for line in response.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    async def play(
        self, story: Story[T], *, sleep: Callable[[float], Awaitable[object]] | None = None
    ) -> T:
        """Run an endpoint's generator to its end; ``sleep`` takes seconds."""
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = story.send(answer) if error is None else story.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            answer, error = None, None
            try:
                answer = await self._take(step, sleep or self._sleep)
            except BaseException as raised:
                if not isinstance(step, Request):
                    raise
                error = raised  # what is asked for may go on without the answer

    async def _take(self, step: Step, sleep: Callable[[float], Awaitable[object]]) -> Any:
        match step:
            case Request():
                return self._read(step, await self._send(step))
            case AskTerms():
                return self._terms
            case Pause():
                return await sleep(step.seconds)
            case Work():
                return await step.do()

    async def _send(self, request: Request[Any]) -> httpx.Response:
        try:
            return await self._http.request(
                request.method,
                request.path,
                params=request.params,
                json=request.body,
                timeout=self._timeout(request),
            )
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    async def _connection(self, reader: Events) -> AsyncIterator[Event]:
        async with self._http.stream(
            "GET", reader.path, params=reader.params, timeout=_STREAM_S
        ) as response:
            if response.is_error:
                raise refused(response.status_code, await response.aread(), self.url)
            async for line in response.aiter_lines():
                if event := reader.line(line):
                    yield event

"""One rollout for a harness: registered, run, and reported whatever happens in between."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self, Unpack

from truezero import models
from truezero.sdk.arguments import OutcomeFacts, RolloutFacts
from truezero.sdk.current import current
from truezero.sdk.errors import MEASURED, ServiceError
from truezero.sdk.rollouts import AlreadyMeasured, BaseRollout, Skipped, outcome_of

if TYPE_CHECKING:
    from truezero.sdk._async.client import AsyncClient


class AsyncRollout(BaseRollout):
    """A rollout, for ``async with``: registered on entry, reported at the latest on leaving.

    An exception that leaves the block is reported as the matching status and propagates.
    Ctrl-C and a cancelled task are reported as ``cancelled`` and propagate, too.

    Raises:
        Skipped: on entry, if the batch's breaker does not admit it.
        AlreadyMeasured: on entry, if its task has all ``repeats`` that it names.
        ServiceError: the service is unreachable or rejects the request.
    """

    def __init__(self, client: AsyncClient, facts: RolloutFacts) -> None:
        super().__init__(facts)
        self._client = client

    async def __aenter__(self) -> Self:
        try:
            registered = await self._client.register(**self._facts)
        except ServiceError as error:
            if error.code != MEASURED:
                raise
            raise AlreadyMeasured("", str(error)) from None
        if not registered.admitted:
            raise Skipped(registered.id, registered.error or "skipped")
        self._registered = registered
        self._become_current()
        return self

    async def __aexit__(self, _type: object, exc: BaseException | None, _traceback: object) -> None:
        current.set(self._outer)
        if self.finished or isinstance(exc, ServiceError):
            return
        if exc is None:
            await self.finish()
        elif isinstance(exc, Exception):
            await self.finish(**outcome_of(exc))
        elif not isinstance(exc, GeneratorExit):  # in which nothing may be awaited
            with suppress(ServiceError):
                await self._client.report(self.id, **self._reported(outcome_of(exc)))

    async def finish(self, **outcome: Unpack[OutcomeFacts]) -> models.Result:
        """Report the outcome, success by default; return the record to store."""
        self._ended = await self._client.ended(self.id, **self._reported(outcome))
        return self._ended[0]

    async def peek(self) -> models.Verdict:
        """Return the verdict so far; ``doomed`` means that the rollout cannot succeed any more."""
        return await self._client.verdict(self.id)

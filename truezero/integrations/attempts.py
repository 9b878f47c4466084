"""Steps that integrations share: the check of the service, attempts, and unmeasured samples."""

from __future__ import annotations

import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterable

from truezero import Client, models
from truezero.sdk.errors import ServiceError
from truezero.sdk.outcomes import outcomes_left

GREETING_S = 5.0  # what a harness may wait for a service, once a run


class NotMeasured(RuntimeError):
    """An attempt is no measurement: the service cannot be reached, or cannot tell."""


def check_service(
    url: str | None = None,
    token: str | None = None,
    *,
    client: Client | None = None,
    within_s: float = GREETING_S,
) -> None:
    """Check that the service answers, is of this release and takes the token.

    Nothing holds it longer than ``within_s``, also not a name server. Blocks: call it with
    ``asyncio.to_thread`` in a coroutine.

    Arguments:
        url, token: as for ``truezero.Client``.
        client: to ask with in place of a client of its own.

    Raises:
        ServiceError: its message is the one sentence to say.
    """
    failed: list[Exception] = []
    asked = client or Client(url, token, timeout_s=within_s)

    def greet() -> None:
        try:
            asked.greet()
            asked.batch_page(limit=1)  # /healthz asks for no token
        except Exception as error:  # raised again in the caller's thread
            failed.append(error)
        finally:
            if client is None:
                asked.close()

    thread = threading.Thread(target=greet, name="truezero-greeting", daemon=True)
    thread.start()
    thread.join(within_s)
    if thread.is_alive():
        raise ServiceError(
            f"{asked.url} did not answer within {within_s:g} s: is it a truezero service?",
            code="no_answer",
        )
    if failed:
        raise failed[0]


def next_attempt(earlier: Iterable[models.RolloutItem]) -> int:
    """Return the number of a task's next attempt, from 0."""
    return 1 + max((item.attempt or 0 for item in earlier), default=-1)


class Contact:
    """The service as a process that did not ask for it knows it.

    It is greeted once. If it does not answer, now or later, the harness goes on without it.

    Arguments:
        say: told why the harness goes on without it, once.
        check: raises ``ServiceError``; by default ``check_service``.
    """

    def __init__(
        self, say: Callable[[str], object], *, check: Callable[[], object] = check_service
    ) -> None:
        self._say, self._check = say, check
        self._lock = threading.Lock()  # whoever comes meanwhile waits for the same answer
        self._checked = self._left = False

    def made(self) -> bool:
        """Greet the service if nobody has; return false if the harness goes on without it."""
        with self._lock:
            if not self._checked:
                self._checked = True
                try:
                    self._check()
                except ServiceError as error:
                    self.leave(str(error))
            return not self._left

    def leave(self, why: str) -> None:
        """Go on without the service from now on."""
        if not self._left:
            self._left = True
            self._say(why)


def service_cause(error: ServiceError) -> str:
    """Return in a few words why the service gave no verdict."""
    return "refused by the truezero service" if error.status else "truezero service away"


def unmeasured_line(causes: Counter[str], attempts: str, batch: str) -> str | None:
    """Return one line on the attempts that were not measured, for the end of a run.

    None if there are none. Outcomes that are not delivered yet are told with them.

    Arguments:
        causes: how many there are of each.
        attempts: what they are of: ``12 repetitions``.
    """
    if not causes:
        return None
    told = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
    left = outcomes_left()
    more = f"more with `{shlex.join(('truezero', 'check', batch))}`"
    said = f"{causes.total()} of {attempts} not measured: {told}; {more}"
    return f"{said}; {left}" if left else said

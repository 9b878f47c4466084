"""What integrations share: whether the service answers, and the numbers of a task's attempts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from truezero import models
from truezero.sdk.client import Client
from truezero.sdk.errors import ServiceError

GREETING_S = 5.0  # what a harness may wait for a service, once a run


class NotMeasured(RuntimeError):
    """An attempt is no measurement: the service cannot be reached, or cannot tell."""


def check_service(
    url: str | None = None, token: str | None = None, *, within_s: float = GREETING_S
) -> None:
    """Check that the service answers, is of this release and takes the token.

    Nothing holds it longer than ``within_s``, also not a name server. Blocks: call it with
    ``asyncio.to_thread`` in a coroutine.

    Arguments:
        url, token: as for ``truezero.Client``.

    Raises:
        ServiceError: its message is the one sentence to say.
    """
    failed: list[Exception] = []
    client = Client(url, token, timeout_s=within_s)

    def greet() -> None:
        with client:
            try:
                client.greet()
                client.batch_page(limit=1)  # /healthz asks for no token
            except Exception as error:  # raised again in the caller's thread
                failed.append(error)

    asking = threading.Thread(target=greet, name="truezero-greeting", daemon=True)
    asking.start()
    asking.join(within_s)
    if asking.is_alive():
        raise ServiceError(
            f"{client.url} did not answer within {within_s:g} s: is it a truezero service?",
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

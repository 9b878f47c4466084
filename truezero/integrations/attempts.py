"""Steps that integrations share: check the service, number attempts, say what is no measurement."""

from __future__ import annotations

import logging
import math
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from truezero import Client, models
from truezero.sdk.errors import ServiceError

BATCH = "TRUEZERO_BATCH"  # the variable that names a run's batch
GREETING_S = 5.0  # what a harness may wait for a service, once a run
AWAY = "truezero service away"  # cause of what was not measured because of that
NO_CALL = "no call came through truezero: check the agent's base URL"

_log = logging.getLogger("truezero")


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
    # Only the wait below ends a greeting: on a busy machine the client's could end first.
    service = Client(url, token, timeout_s=10 * within_s)

    def greet() -> None:
        try:
            service.greet()
            service.batch_page(limit=1)  # /healthz asks for no token
        except Exception as error:  # raised again in the caller's thread
            failed.append(error)
        finally:
            service.close()

    thread = threading.Thread(target=greet, name="truezero-greeting", daemon=True)
    thread.start()
    thread.join(within_s)
    if thread.is_alive():
        raise ServiceError(
            f"{service.url} did not answer within {within_s:g} s: is it a truezero service?",
            code="no_answer",
        )
    if failed:
        raise failed[0]


def keep_verdict(file: Path, content: str) -> None:
    """Write a verdict beside a harness's own result; a failure costs a warning."""
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        _log.warning("truezero: the verdict is not kept in %s: %s", file, error)


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
    return "refused by the truezero service" if error.status else AWAY


def no_measurement(verdict: models.Verdict) -> str | None:
    """Return why a rollout is proven to be no measurement; None if it is not.

    Its model failed, it was not admitted or its calls were refused, or its score does not count.
    """
    if verdict.error_category is None and verdict.health != "not_judged":
        return verdict.spoilt
    return verdict.error or verdict.error_category


def failure_kind(verdict: models.Verdict) -> str | None:
    """Return in a word what made a rollout no measurement; None if nothing is known to have."""
    return verdict.subcategory or verdict.error_category or next(iter(verdict.excluded_by), None)


def undecided(verdict: models.Verdict) -> str | None:
    """Return why nobody can say whether a rollout is a measurement; None if that is known."""
    if verdict.health != "undecided":
        return None
    return verdict.error or f"undecided: {', '.join(verdict.warnings) or verdict.rule}"


def unmeasured_line(causes: Counter[str], attempts: str, batch: str, *, remark: str = "") -> str:
    """Return one line on the attempts that were not measured, for the end of a run.

    Arguments:
        causes: the number of attempts by cause.
        attempts: the total, in words: ``12 repetitions``.
        remark: text to append to the causes.
    """
    listed = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common())
    reasons = f": {listed}{remark}" if causes else ""
    more = shlex.join(("truezero", "check", batch))
    return f"{causes.total()} of {attempts} not measured{reasons}; more with `{more}`"


def finite(rewards: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return the finite numbers among named rewards, or None if there are none."""
    numbers = {
        name: float(value)
        for name, value in (rewards or {}).items()
        if isinstance(value, bool | int | float) and math.isfinite(value)
    }
    return numbers or None

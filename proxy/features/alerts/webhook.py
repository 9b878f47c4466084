"""Posts alerts to the operator's webhook: signed, each by one process, until it is received.

The format is that of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com): a receiver
knows a message that is sent twice by its id. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from classifier.verdicts import plural
from proxy.control.look import Conditions
from proxy.control.queries import run_in_thread
from proxy.features.alerts.store import Alert, Alerts
from proxy.routing.errors import Refusal
from proxy.store.deployment import Deployment
from proxy.store.errors import StoreError

if TYPE_CHECKING:
    import httpx
log = logging.getLogger("truezero")

LOOK_EVERY_S = 15.0
_POST_S = 10.0  # for a receiver to answer
_CLAIMED_S = 60.0  # after which another process takes over a message, if this one died
# Seconds before each further attempt, a day in all; then it is given up.
DELAYS_S = (15.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0)


class Webhook:
    """Looks for alerts and sends their messages, in one of all processes at a time.

    Arguments:
        look: looks once for everything that an operator is alerted of.
        key: signs requests.
        wall: seconds since the epoch.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        alerts: Alerts,
        deployment: Deployment,
        *,
        look: Callable[[], Awaitable[Conditions]],
        url: str,
        key: bytes,
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._alerts = alerts
        self._take_turn = partial(deployment.take_turn, "alert", for_s=LOOK_EVERY_S - 1)
        self._look = look
        self._url = url
        self._key = key
        self._wall = wall
        self._sleep = sleep

    async def run(self) -> None:
        """Look and send until cancelled; a failure is logged, and the next turn tries again."""
        await run_in_thread(import_module, "httpx")  # 50 ms, and for nothing without a webhook
        import httpx  # noqa: PLC0415

        async with httpx.AsyncClient(timeout=_POST_S) as client:
            while True:
                try:
                    await self.turn(client)
                except (Refusal, StoreError):
                    log.warning("alerts cannot be read: the database is unavailable")
                except Exception as error:  # of any kind: alerts to come are worth more
                    log.warning("looking for alerts failed: %s", type(error).__name__)
                await self._sleep(LOOK_EVERY_S)

    async def turn(self, client: httpx.AsyncClient) -> None:
        """Look once, unless another process has its turn, and send what is due.

        Raises:
            Refusal: 503 while the database is unavailable.
            StoreError: likewise.
        """
        if not await run_in_thread(self._take_turn, self._wall()):
            return
        seen = await self._look()
        now = self._wall()
        await run_in_thread(self._alerts.note, seen.found, watched=seen.watched, now=now)
        due = await run_in_thread(self._alerts.claim, now, for_s=_CLAIMED_S)
        for alert in due:
            await self._send(alert, client)

    async def _send(self, alert: Alert, client: httpx.AsyncClient) -> None:
        body = body_of(alert)
        headers = signed(body, message_id=alert.id, at=int(self._wall()), key=self._key)
        problem = await _post(client, self._url, body, headers)
        due_at = None
        if problem is None:
            log.info("webhook: %s delivered", alert.kind)
        elif alert.attempts > len(DELAYS_S):
            log.error(
                "webhook: %s given up after %s", alert.kind, plural(alert.attempts, "attempt")
            )
        else:
            due_at = self._wall() + DELAYS_S[alert.attempts - 1]
            log.warning("webhook: %s not delivered (%s)", alert.kind, problem)
        await run_in_thread(self._alerts.settle, alert, due_at=due_at)


async def _post(
    client: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
) -> str | None:
    """Post a message; returns why it was not received, None if it was. Nothing of the answer."""
    import httpx  # noqa: PLC0415

    try:
        async with client.stream("POST", url, content=body, headers=headers) as answer:
            return None if answer.is_success else f"HTTP {answer.status_code}"
    except httpx.HTTPError as error:
        return type(error).__name__


def body_of(alert: Alert) -> bytes:
    """Return a message: its type, when it began, and ids and counts."""
    at = datetime.fromtimestamp(alert.at, UTC).isoformat(timespec="milliseconds")
    message = {"type": alert.kind, "timestamp": at.replace("+00:00", "Z"), "data": alert.data}
    return json.dumps(message, separators=(",", ":")).encode()


def signed(body: bytes, *, message_id: str, at: int, key: bytes) -> dict[str, str]:
    """Return the headers of an attempt; ``at`` is when it is made, in epoch seconds."""
    content = b".".join((message_id.encode(), str(at).encode(), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return {
        "content-type": "application/json",
        "user-agent": "truezero",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{signature}",
    }

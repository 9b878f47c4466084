"""The measurement card of a run's batch, for the place where its harness keeps results.

A card is an extra: one that fails or is late costs a sentence and never the run.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from importlib import metadata
from pathlib import Path

from truezero import Client
from truezero.printable import plural
from truezero.sdk.errors import ServiceError

CARD_FILE = "measurement-card.json"  # in the folder of a job
CARD_KEY = "measurement_card"  # in a log or a summary that is JSON itself
CARD_S = 30.0  # what the end of a run may wait for its card
CARD_ROLLOUTS = 10_000  # whose card took 10 s where two cores had other work too


class NoCard(RuntimeError):
    """A run has no measurement card; the message is the sentence to say."""

    def __init__(self, batch: str, why: object) -> None:
        later = shlex.join(("truezero", "card", batch))
        super().__init__(f"no measurement card was written: {why}; `{later}` shows it")


def fetch_card(
    batch: str,
    package: str,
    url: str | None = None,
    token: str | None = None,
    *,
    within_s: float | None = None,
) -> bytes:
    """Return a batch's measurement card, canonical JSON.

    Blocks for ``within_s`` seconds at most (default: ``CARD_S``): call it with
    ``asyncio.to_thread`` in a coroutine.

    Arguments:
        package: the harness's; its name and installed version stand on the card.
        url, token: as for ``truezero.Client``.

    Raises:
        NoCard: the service did not make it, or not in this time, or it has more than
            ``CARD_ROLLOUTS`` rollouts.
    """
    longest = CARD_S if within_s is None else within_s
    until = time.monotonic() + longest
    made: list[bytes] = []
    failed: list[Exception] = []

    def late(_read: int, _of: int) -> None:
        if time.monotonic() > until:  # the service stops with the connection
            raise TimeoutError

    def fetch() -> None:
        try:
            with Client(url, token) as client:
                total = client.summary(batch).total
                if total > CARD_ROLLOUTS:
                    raise NoCard(batch, f"one of {plural(total, 'rollout')} takes minutes")
                made.append(client.card_files(batch, late, harness=_named(package))["card"])
        except Exception as error:  # raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=fetch, name="truezero-card", daemon=True)
    thread.start()
    thread.join(longest)
    if made:
        return made[0]
    if not failed or isinstance(failed[0], TimeoutError):
        raise NoCard(batch, f"the service did not make it within {longest:g} s")
    if isinstance(failed[0], NoCard):
        raise failed[0]
    raise NoCard(batch, _sentence(failed[0])) from failed[0]


def write_card(
    file: Path, batch: str, package: str, url: str | None = None, token: str | None = None
) -> str | None:
    """Write a batch's card into a file; return why there is none. Arguments as ``fetch_card``."""
    try:
        replace_file(file, fetch_card(batch, package, url, token))
    except NoCard as error:
        return str(error)
    except OSError as error:
        return str(NoCard(batch, error))
    return None


def replace_file(file: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, ServiceError) else type(error).__name__


def _named(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package

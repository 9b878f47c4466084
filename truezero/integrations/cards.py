"""The measurement card of a run's batch, for the place where its harness keeps results.

A card is an extra: one that fails or is late costs a sentence and never the run.
"""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path

import httpx

from truezero import Client
from truezero.sdk.errors import ServiceError
from truezero.whole_file import write_whole

CARD_FILE = "measurement-card.json"  # in the folder of a job
CARD_KEY = "measurement_card"  # in a log or a summary that is JSON itself
CARD_S = 30.0  # what the end of a run may wait for its card


class NoCard(RuntimeError):
    """A run has no measurement card; the message is the sentence to say."""

    def __init__(self, batch: str, why: object) -> None:
        later = shlex.join(("truezero", "card", batch))
        super().__init__(f"no measurement card was written: {why}; `{later}` shows it")


def fetch_card(batch: str, package: str, url: str | None = None, token: str | None = None) -> bytes:
    """Return a batch's measurement card, canonical JSON.

    Blocks: call it with ``asyncio.to_thread`` in a coroutine.

    Arguments:
        package: the harness's; its name and installed version stand on the card.
        url, token: as for ``truezero.Client``.

    Raises:
        NoCard: the service did not make it, or not within ``CARD_S``.
    """
    try:
        with Client(url, token) as client:
            return client.card(batch, harness=_named(package), timeout_s=CARD_S)
    except ServiceError as error:
        late = isinstance(error.__cause__, httpx.ReadTimeout)
        why = f"the service did not make it within {CARD_S:g} s" if late else error
        raise NoCard(batch, why) from error


def write_card(
    file: Path, batch: str, package: str, url: str | None = None, token: str | None = None
) -> str | None:
    """Write a batch's card into a file; return why there is none. Arguments as ``fetch_card``."""
    try:
        write_whole(file, fetch_card(batch, package, url, token))
    except NoCard as error:
        return str(error)
    except OSError as error:
        return str(NoCard(batch, error))
    return None


def _named(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package

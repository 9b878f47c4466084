"""Outcomes that could not be delivered: kept as files until the service is back.

A file has what the runner reported of one rollout; no token and no key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from truezero import foreign
from truezero.printable import plural
from truezero.sdk.addresses import DEFAULT_URL
from truezero.sdk.errors import ServiceError, Undelivered

log = logging.getLogger("truezero.outcomes")

FOLDER_VARIABLE = "TRUEZERO_OUTCOMES"
PATIENCE_VARIABLE = "TRUEZERO_OUTCOME_PATIENCE_S"
_FOLDER = Path(".truezero", "outcomes")
_PATIENCE_S = 60.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 2.0
_LONGEST_NAME = 80


# --- files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutcome:
    """An outcome as it is kept: for which service and rollout, and since when (epoch seconds)."""

    service: str
    rollout_id: str
    kept_at: float
    outcome: Mapping[str, Any]


def folder() -> Path:
    """Return where outcomes are kept: ``TRUEZERO_OUTCOMES``, else below the working directory."""
    return Path(os.environ.get(FOLDER_VARIABLE) or _FOLDER).absolute()


def keep(place: Path, outcome: KeptOutcome) -> Path:
    """Write an outcome into a folder; the same outcome has the same file.

    Raises:
        OSError: the folder cannot be written to.
    """
    _make(place)
    file = place / _name(outcome)
    draft = place / f".{file.stem}.{secrets.token_hex(4)}"
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as written:
            written.write(json.dumps(asdict(outcome), indent=2).encode())
            written.flush()
            os.fsync(written.fileno())
        draft.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    return file


def kept_in(place: Path) -> Iterator[tuple[Path, KeptOutcome | None]]:
    """Yield the kept outcomes of a folder, the oldest first; None for a file that is none.

    A file that another process delivers meanwhile is left out.
    """
    outcomes: list[tuple[Path, KeptOutcome | None]] = []
    for file in sorted(place.glob("*.json")):
        with contextlib.suppress(FileNotFoundError):
            outcomes.append((file, _read(file)))
    yield from sorted(outcomes, key=lambda each: each[1].kept_at if each[1] else 0.0)


def _read(file: Path) -> KeptOutcome | None:
    try:
        stored = foreign.parse(foreign.read(file, links=False))
        return KeptOutcome(
            service=str(stored["service"]),
            rollout_id=str(stored["rollout_id"]),
            kept_at=float(stored["kept_at"]),
            outcome=dict(stored["outcome"]),
        )
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make(place: Path) -> None:
    """Create the folder for this user only; one that exists stays as it is."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=0o700)


def _name(outcome: KeptOutcome) -> str:
    """Return a file's name: the rollout, and a digest of everything but the time."""
    facts = json.dumps([outcome.service, outcome.rollout_id, outcome.outcome], sort_keys=True)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return f"{quote(outcome.rollout_id, safe='')[:_LONGEST_NAME]}.{digest}.json"


# --- delivery ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTerms:
    """The terms on which a client delivers outcomes to a service.

    ``service`` is its address without a name and password. ``keeps`` is false where nobody misses
    an outcome that is lost: it is tried once.
    """

    service: str
    folder: Path
    patience_s: float
    clock: Callable[[], float]
    keeps: bool


# Since when a service is away, by its address; all clients of a process wait until one deadline.
_away_since: dict[str, float] = {}


class Delivery:
    """One outcome on its way: sent again while the service is away, kept until it has arrived."""

    def __init__(self, terms: DeliveryTerms, rollout_id: str, outcome: Mapping[str, Any]) -> None:
        self._terms = terms
        self._kept = KeptOutcome(
            service=terms.service, rollout_id=rollout_id, kept_at=time.time(), outcome=outcome
        )
        self._file: Path | None = None
        self._not_kept = ""
        self._wait_s = _FIRST_WAIT_S

    def wait_after(self, error: ServiceError) -> float:
        """Keep it, and return how long to wait before it is sent again, in seconds.

        Raises:
            Undelivered: the service was away for too long, or refused what it may take later.
            ServiceError: the outcome itself is refused.
        """
        if not self._terms.keeps or (self._file is None and _is_final(error)):
            raise error
        self._keep()  # tried each time: a disk that was full may have room again
        left_s = self._left_s(error) if is_away(error) else 0.0
        if left_s <= 0:
            then = "when the service is back" if is_away(error) else "once that is mended"
            raise Undelivered(
                f"{self._undelivered}, {_short(error, self._terms.service)}; {self._mend(then)}",
                rollout_id=self._kept.rollout_id,
                file=self._file,
                status=error.status,
                code=error.code,
            ) from error
        wait_s = min(self._wait_s, left_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
        return wait_s

    def interrupted(self, stopped: BaseException) -> None:
        """Keep it where Ctrl-C or a cancellation stopped it on its way."""
        if self._terms.keeps and not isinstance(stopped, Exception):
            self._keep()
            log.warning(
                "truezero: %s; %s", self._undelivered, self._mend("when the service is back")
            )

    def arrived(self) -> None:
        """Forget it."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)

    def _keep(self) -> None:
        if self._file is None:
            try:
                self._file = keep(self._terms.folder, self._kept)
            except OSError as error:
                self._not_kept = error.strerror or type(error).__name__

    def _left_s(self, error: ServiceError) -> float:
        """Return for how long a service that is away is still waited for, in seconds."""
        service, patience_s, now = self._terms.service, self._terms.patience_s, self._terms.clock()
        if patience_s and service not in _away_since:
            log.warning(
                "truezero: %s: outcomes wait for it for up to %g s, and are kept in %s",
                _short(error, service), patience_s, self._terms.folder,
            )  # fmt: skip
        return _away_since.setdefault(service, now) + patience_s - now

    @property
    def _undelivered(self) -> str:
        return f"the outcome of rollout {self._kept.rollout_id!r} is not delivered"

    def _mend(self, then: str) -> str:
        place = self._terms.folder
        if self._file is None:
            why = f"{place}: {self._not_kept}"
            return f"it could not be kept either ({why}): run the sample again"
        command = deliver_command(place, self._terms.service)
        return f"it is kept in {self._file}: {then}, run `{command}`"


def answered(service: str) -> None:
    """Note that a service answered: the next time that it is away, patience begins anew."""
    _away_since.pop(service, None)


def is_away(error: ServiceError) -> bool:
    """Return True if an error may pass: no answer, another server's, or 408, 425, 429 or 5xx."""
    status = error.status or 0
    return error.code in _AWAY or status in _LATER or status >= 500


def _is_final(error: ServiceError) -> bool:
    """Return True if the service itself refused the outcome, and always will."""
    return error.status in _FINAL and error.code not in _AWAY


_AWAY = frozenset({"unreachable", "no_answer", "away", "other_service"})
_LATER = frozenset({408, 425, 429})
_FINAL = frozenset({400, 409, 413, 422})


def _short(error: ServiceError, service: str) -> str:
    if error.code not in _AWAY:
        return str(error)
    if error.status:
        return f"the service at {service} is away (HTTP {error.status})"
    return f"cannot reach a truezero service at {service} ({type(error.__cause__).__name__})"


# --- what is left --------------------------------------------------------------------------


def outcomes_left() -> str | None:
    """Return one sentence on the outcomes that are kept, for the end of a run; None for none."""
    place = folder()
    left = [kept for _, kept in kept_in(place)]
    if not left:
        return None
    services = {kept.service for kept in left if kept is not None}
    command = deliver_command(place, services.pop() if len(services) == 1 else None)
    return (
        f"{plural(len(left), 'outcome')} {'is' if len(left) == 1 else 'are'} not delivered and "
        f"kept in {place}: when the service is back, run `{command}`"
    )


def deliver_command(place: Path, service: str | None) -> str:
    """Return the command that delivers a folder's outcomes to a service, as typed here."""
    words = ["truezero", "outcomes", "deliver"]
    if place != folder():
        words += ["--folder", str(place)]
    if service not in (None, without_credentials(os.environ.get("TRUEZERO_URL") or DEFAULT_URL)):
        words += ["--url", str(service)]
    return shlex.join(words)


def without_credentials(url: str) -> str:
    """Return an address without the name and password that may be in it."""
    parts = urlsplit(url.rstrip("/"))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def patience_s() -> float:
    """Return how long outcomes wait for a service, in seconds.

    Raises:
        ServiceError: ``TRUEZERO_OUTCOME_PATIENCE_S`` is not such a number.
    """
    written = os.environ.get(PATIENCE_VARIABLE) or _PATIENCE_S
    try:
        seconds = float(written)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ServiceError(f"{PATIENCE_VARIABLE}: {written!r} is not a number of seconds")
    return seconds

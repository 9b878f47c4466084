"""The admin token that the service makes for itself, and the links with which a person signs in."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from proxy.api.sessions import LINK_LIFE_S
from proxy.settings import Settings, sources
from proxy.settings_sources import PREFIX
from proxy.store.database import Database, url_of
from proxy.store.errors import BadUrl
from proxy.wiring import control_auth

FILE = "admin-token"
_SETTING = PREFIX + "ADMIN_TOKEN_FILE"


def find(environment: MutableMapping[str, str], *, make: bool) -> bool | None:
    """Name the token's file in the environment, for this process and its workers.

    The file is the one that they name, else
    `admin-token` in the SQLite file's folder, with PostgreSQL in the working directory.

    Arguments:
        make: make the file where it is missing, with a token of 256 random bits.

    Returns:
        Whether it was made; None where the settings have a token, and nothing was done.

    Raises:
        SettingsError: the settings cannot be read.
        OSError: the file cannot be made.
    """
    file, env = sources(environment)
    given = {**file, **env}
    if given.get("admin_token"):
        return None
    path = Path(str(given.get("admin_token_file") or _folder(given) / FILE))
    made = make and _make(path)
    if path.exists():
        environment[_SETTING] = str(path)
    return made


def _folder(given: Mapping[str, object]) -> Path:
    url = str(given.get("database_url") or Settings.model_fields["database_url"].default)
    try:
        parsed = url_of(url)
    except BadUrl:  # as the start will say
        return Path()
    named = parsed.database if parsed.get_backend_name() == "sqlite" else None
    return Path(named).parent if named else Path()


def _make(path: Path) -> bool:
    """Make the file whole or not at all; return whether this process was the one that made it.

    It belongs to the owner of its folder, so that what root makes the service can read.
    """
    if path.exists():  # also where its folder is mounted for reading only
        return False
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(descriptor)
            if os.geteuid() == 0:
                owner = path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(part)
            return True
        return False
    finally:
        part.unlink()


def sign_in_link(database: Database, settings: Settings, *, port: int) -> str:
    """Return a link that signs one person in, once and within ten minutes.

    Its secret is behind the #, which browsers do not send: no proxy between can log it.

    Arguments:
        port: where the control plane listens, for settings that name no URL.
    """
    sessions = control_auth(settings, database.deployment.secret("keyring")).sessions
    secret = sessions.invite(time.time(), secrets.token_hex(8))
    return f"{_base(settings, port)}/ui/sign-in#{secret}"


def invitation(link: str) -> str:
    """Return the sentence that offers a link."""
    return f"sign in, once and within {LINK_LIFE_S // 60} minutes: {link}"


def _base(settings: Settings, port: int) -> str:
    if base := settings.dashboard_url or settings.public_url:
        return base.rstrip("/")
    host, _ = settings.addresses[-1]
    here = "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104  compared
    named = f"[{here}]" if ":" in here else here
    return f"{settings.scheme}://{named}:{port}"

"""Make and check the API keys that prove a call's rollout, from one server secret.

They open no control route, and none is stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field

_SECRET_BYTES = 18  # 144 bits, 24 characters in a URL
_MINTED = "tz-"


@dataclass(frozen=True, slots=True)
class Keyring:
    """Make and check the secrets of rollouts.

    ``secret`` is the server's own, the same in every process on one database.
    """

    secret: bytes = field(repr=False)

    def secret_of(self, rollout_id: str) -> str:
        """Return the secret behind ``~`` in a rollout's base_url."""
        digest = hmac.digest(self.secret, b"rollout\0" + rollout_id.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:_SECRET_BYTES]).decode()

    def opens(self, rollout_id: str, secret: str) -> bool:
        """Whether the secret is that rollout's; compared in constant time."""
        return hmac.compare_digest(self.secret_of(rollout_id).encode(), secret.encode())

    def mint(self, rollout_id: str) -> str:
        """Make the API key that names and proves one rollout: ``tz-<id>.<secret>``."""
        name = base64.urlsafe_b64encode(rollout_id.encode()).decode().rstrip("=")
        return f"{_MINTED}{name}.{self.secret_of(rollout_id)}"

    def rollout_of(self, key: str) -> str | None:
        """Return the rollout that a key proves, or None for any other key."""
        name, dot, secret = key.removeprefix(_MINTED).partition(".")
        if not (key.startswith(_MINTED) and dot):
            return None
        try:
            rollout_id = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        return rollout_id if self.opens(rollout_id, secret) else None

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

AGENT = "agent"  # the role of whoever shows no other role's secret


@dataclass(frozen=True, slots=True)
class Keyring:
    """Make and check the secrets of rollouts.

    ``secret`` is the server's own, the same in every process on one database.
    """

    secret: bytes = field(repr=False)

    def secret_of(self, rollout_id: str, role: str = AGENT) -> str:
        """Return the secret behind ``~`` in the base_url of a rollout's agent, or other role."""
        named = "rollout" if role == AGENT else f"role\0{role}"
        message = f"{named}\0{rollout_id}".encode()
        digest = hmac.digest(self.secret, message, hashlib.sha256)
        return base64.urlsafe_b64encode(digest[:_SECRET_BYTES]).decode()

    def opens(self, rollout_id: str, secret: str, role: str = AGENT) -> bool:
        """Whether the secret is that rollout's and role's; compared in constant time."""
        return hmac.compare_digest(self.secret_of(rollout_id, role).encode(), secret.encode())

    def mint(self, rollout_id: str, role: str = AGENT) -> str:
        """Make the API key that names and proves a rollout and a role.

        ``tz-<id>.<secret>`` is an agent's, ``tz-<id>.<role>.<secret>`` another role's.
        """
        name = base64.urlsafe_b64encode(rollout_id.encode()).decode().rstrip("=")
        middle = "" if role == AGENT else f"{role}."
        return f"{_MINTED}{name}.{middle}{self.secret_of(rollout_id, role)}"

    def rollout_of(self, key: str) -> str | None:
        """Return the rollout that an agent's key proves, or None for any other key."""
        holder = self.holder_of(key)
        return holder[0] if holder is not None and holder[1] == AGENT else None

    def holder_of(self, key: str) -> tuple[str, str] | None:
        """Return the rollout and the role that a key proves, or None for any other key."""
        parts = key.removeprefix(_MINTED).split(".")
        if not (key.startswith(_MINTED) and len(parts) in (2, 3)):
            return None
        name, role, secret = parts[0], AGENT if len(parts) == 2 else parts[1], parts[-1]
        try:
            rollout_id = base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        return (rollout_id, role) if self.opens(rollout_id, secret, role) else None

"""Lets only the operator's token onto the control plane.

It knows one token and nothing of rollouts: a minted agent key opens nothing here.
"""

from __future__ import annotations

import hmac
from typing import Any

from proxy.headers import first
from proxy.refusals import Refusal

_OPEN = frozenset({"/healthz", "/readyz"})  # for probes that carry no token; they name nobody
_CHALLENGE = ((b"www-authenticate", b'Bearer realm="truezero"'),)


def check(scope: dict[str, Any], token: bytes | None) -> None:
    """Return where the request may pass.

    Raises:
        Refusal: 401 without the admin token, compared in constant time.
    """
    if token is None or scope["path"] in _OPEN:
        return
    shown = first(scope["headers"], b"authorization") or b""
    scheme, _, bearer = shown.partition(b" ")
    if scheme.lower() != b"bearer" or not hmac.compare_digest(bearer.strip(), token):
        raise Refusal(
            401,
            "unauthorized",
            "the control plane needs `Authorization: Bearer` with TRUEZERO_ADMIN_TOKEN",
            _CHALLENGE,
        )

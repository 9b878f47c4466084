"""The headers of a call that takes the operator's key."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.relay.context import RelayContext, Signer
from proxy.routing import headers as dress
from proxy.routing.target import Target


def dressed_as_operator(
    context: RelayContext, target: Target, headers: Sequence[tuple[bytes, bytes]]
) -> tuple[dress.Pairs, Signer | None]:
    """Return the headers for the provider, and who still has to add a credential to them."""
    keys, upstream = context.operator_keys, target.upstream
    real_key = keys.static.get(upstream.name)
    rewrite = dress.for_upstream_as_operator if keys.replace else dress.for_upstream
    rewritten = rewrite(headers, host=upstream.host, auth=upstream.auth, real_key=real_key)
    return rewritten, context.signers.get(upstream.auth) if real_key is None else None

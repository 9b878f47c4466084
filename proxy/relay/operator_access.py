"""Whether the operator's key goes in with a call, and whether the call's path is open to it.

A server that asks for no key gives to agents what an operator's key would give to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.capture.request import response_digest
from proxy.relay import operator_paths
from proxy.relay.context import RelayContext, Signer
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.keys import KeyUse, without_keys
from proxy.routing.target import Target
from proxy.routing.upstreams import Auth


class OperatorAccess:
    """Settles whose key a call takes, and refuses what the operator's does not open."""

    def __init__(self, context: RelayContext) -> None:
        self._keys = context.operator_keys
        self._signers: Mapping[Auth, Signer] = context.signers
        self._access = context.access
        self._salt = context.salt
        if (self._keys.static or self._keys.guards_keyless) and not self._keys.any_path:
            operator_paths.compile_patterns()

    async def settled(
        self,
        target: Target,
        method: str,
        headers: Sequence[tuple[bytes, bytes]],
        *,
        shows_own_key: bool = False,
    ) -> Target:
        """Return a call's target with the key that it takes.

        Arguments:
            method: as on the request line, or `routes.UPGRADE`.
            shows_own_key: the caller shows one elsewhere than in a header.

        Raises:
            Refusal: 403, the path is not open; 503, nobody can say.
        """
        if target.keys is KeyUse.EITHER:
            own = shows_own_key or dress.shows_own_key(headers, target.upstream.auth)
            if own and not await self._replaces(target):
                return replace(target, keys=KeyUse.CALLERS)
            query = without_keys(target.query) if self._keys.replace else target.query
            target = replace(target, keys=KeyUse.OPERATORS, query=query)
        if not self._keys.any_path:
            await self._check_path(target, method)
        return target

    def settled_at_once(
        self, target: Target, method: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> Target | None:
        """Return what `settled` does where nothing is to be waited for; None elsewhere."""
        if target.upstream.auth in self._signers:
            return None
        if target.keys is KeyUse.EITHER:
            if dress.shows_own_key(headers, target.upstream.auth):
                return replace(target, keys=KeyUse.CALLERS)
            query = without_keys(target.query) if self._keys.replace else target.query
            target = replace(target, keys=KeyUse.OPERATORS, query=query)
        if not self._keys.any_path:
            opened = operator_paths.open_path(method, target.path)
            if opened is None or opened.continues is not None:
                return None
        return target

    async def _replaces(self, target: Target) -> bool:
        """Whether the operator's credentials take the place of a key that the caller shows."""
        signer = self._signers.get(target.upstream.auth)
        return self._keys.replace and signer is not None and await signer.available()

    async def _check_path(self, target: Target, method: str) -> None:
        opened = operator_paths.open_path(method, target.path)
        if opened is None:
            raise _not_allowed(target, "this path is not one of a model call")
        if opened.continues is not None and not await self._was_answered(target, opened.continues):
            raise _not_allowed(target, "this rollout was not answered that response")

    async def _was_answered(self, target: Target, response_id: str) -> bool:
        if self._access is None:
            return False
        digest = response_digest(response_id, self._salt)
        return await self._access.was_answered(target, digest)


def _not_allowed(target: Target, why: str) -> Refusal:
    keyless = target.keys is KeyUse.NOBODYS
    what = "a server that may ask for no key" if keyless else "the operator's key"
    return Refusal(
        403,
        "path_not_allowed",
        f"{what} opens model calls only: {why}; "
        'the setting operator_key_paths = "any" opens all paths',
    )

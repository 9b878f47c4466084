"""The upgrade request of an agent's WebSocket, recorded as a call of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import parse_qs

from classifier.records import Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.capture.call import Call
from proxy.capture.observer import CallObserver
from proxy.capture.websocket import WebSocketApi, websocket_api
from proxy.inbound.asgi import Scope
from proxy.outbound.websocket import UpgradeRefusedError, WebSocketUnreachableError
from proxy.relay.context import RelayContext
from proxy.routing import headers as dress
from proxy.routing.errors import Refusal
from proxy.routing.target import Target
from proxy.wire.dialect import model_name

# What a server answers that has the path over HTTP, or not at all, but no socket on it.
NO_SOCKET = frozenset({404, 405, 501})
OVER_HTTP = ((b"upgrade", b"HTTP/1.1"),)  # due with a 426, RFC 9110 §15.5.22
_HANDSHAKE = b"sec-websocket-"
# A browser cannot set headers, so OpenAI takes its key among the subprotocols
# (platform.openai.com/docs/guides/realtime-websocket).
_KEY_PROTOCOL = "openai-insecure-api-key."
_MINTED_PROTOCOL = _KEY_PROTOCOL + "tz-"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """What an agent's upgrade asks for; a minted key among its subprotocols is a header here."""

    headers: dress.Pairs
    subprotocols: tuple[str, ...]
    deflate: bool

    @classmethod
    def of(cls, scope: Scope) -> UpgradeRequest:
        """Read an upgrade request from its ASGI scope."""
        offered = scope["subprotocols"]
        minted = [one.removeprefix(_KEY_PROTOCOL) for one in offered if _is_minted(one)]
        extensions = dress.first(scope["headers"], _HANDSHAKE + b"extensions") or b""
        return cls(
            headers=[
                *((name, value) for name, value in scope["headers"]),
                *((b"authorization", b"Bearer " + key.encode("latin-1")) for key in minted),
            ],
            subprotocols=tuple(one for one in offered if not _is_minted(one)),
            deflate=b"permessage-deflate" in extensions,
        )

    @property
    def shows_own_key(self) -> bool:
        """Whether the agent's own key is among the subprotocols."""
        return any(one.startswith(_KEY_PROTOCOL) for one in self.subprotocols)


class HandshakeCall:
    """The request that opens a socket, as an exchange.

    It is a probe, and never counts in a verdict, unless it proves that the agent reached no
    model: what speaks of the key, the account or the provider's health does, and so does
    silence. That a path has no socket says nothing where the same API is there over HTTP.
    """

    __slots__ = ("_observer", "api", "id", "model")

    def __init__(self, context: RelayContext, target: Target, call: Call) -> None:
        self._observer = CallObserver(call, salt=context.salt, stall_s=context.limits.stall_s)
        self.id = call.id
        self.api: WebSocketApi | None = websocket_api(target.path)
        self.model = _model(target.query)

    @property
    def falls_back(self) -> bool:
        """Whether its clients have the same API over HTTP."""
        return self.api is not None and self.api.falls_back

    def opened(self, headers: dress.Pairs, at: float) -> Exchange:
        """The provider switched protocols."""
        self._observer.on_response_head(101, headers, at)
        return self._observer.finish(Ending.COMPLETE, at)

    def left(self, at: float) -> Exchange:
        """The agent left before an answer."""
        return self._observer.finish(Ending.LEFT_BY_AGENT, at)

    def refused(self, refused: UpgradeRefusedError, at: float) -> Exchange:
        """The provider answered with something else."""
        headers = [(name.lower(), value) for name, value in refused.headers]
        self._observer.on_response_head(refused.status, headers, at)
        self._observer.on_response_body(refused.body, at)
        return self._weighed(self._observer.finish(Ending.COMPLETE, at))

    def unopened(self, unopened: WebSocketUnreachableError, at: float) -> Exchange:
        """No answer came."""
        return self._weighed(self._observer.finish(unopened.ending, at))

    def _weighed(self, exchange: Exchange) -> Exchange:
        cause = exchange.cause
        if self.api is None or cause is None:
            return exchange
        told = cause.transient or cause.code is not None
        rejected = cause.subcategory is Subcategory.REJECTED_REQUEST
        if self.falls_back and (exchange.status in NO_SOCKET or rejected or not told):
            return exchange
        return replace(exchange, kind=Kind.INFERENCE, model=self.model)


def _model(query: bytes) -> str | None:
    """The model that a realtime upgrade names; Azure calls it a deployment."""
    asked = parse_qs(query.decode("ascii", "replace"))
    named = asked.get("model") or asked.get("deployment")
    return model_name(named[0]) if named else None


def use_http(name: str, status: int, exchange_id: str) -> Refusal:
    """Codex asks the same over HTTP at once after a 426, after five reconnects otherwise.

    Source: openai/codex, core/src/client.rs, WebsocketStreamOutcome::FallbackToHttp.
    """
    return Refusal(
        426,
        "no_websocket",
        f"upstream {name!r} answers the upgrade with {status}: ask the same over HTTP",
        (*OVER_HTTP, (b"x-truezero-exchange", exchange_id.encode())),
    )


def is_handshake_header(name: bytes) -> bool:
    """Whether a header belongs to the WebSocket handshake and is not forwarded."""
    return name.startswith(_HANDSHAKE) or name == b"host"


def _is_minted(subprotocol: str) -> bool:
    return subprotocol.startswith(_MINTED_PROTOCOL)

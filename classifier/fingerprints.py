"""Names that group equal failures: fingerprint, cause and lane.

No text of a provider's message is ever part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from classifier.records import Exchange
from classifier.verdicts import Subcategory

NETWORK = "network"  # in place of a status, for a call without a response
UNKNOWN = "-"
_VERSION = "v1"


def status_name(status: int | None) -> str:
    """Return ``429``, or ``network`` where no response came."""
    return NETWORK if status is None else str(status)


def fingerprint(subcategory: Subcategory, status: int | None) -> str:
    """Return the coarse name, ``auth:401``; equal under both policies for equal failures."""
    return f"{subcategory.value}:{status_name(status)}"


def suspicion(rule: str) -> str:
    """Return the fingerprint of a suspected failure, ``suspected:zero_signal``."""
    return f"suspected:{rule}"


def cause_name(
    subcategory: Subcategory, upstream: str, status: int | None, code: str | None
) -> str:
    """Return the fine, versioned name, ``v1:quota:openai:429:insufficient_quota``."""
    parts = (_VERSION, subcategory.value, upstream, status_name(status), code or UNKNOWN)
    return ":".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A route to one model: upstream, model and key; None is unknown.

    Written ``upstream/model/key-3f9a``. A model's name may hold slashes, an upstream's
    and a digest's never do.
    """

    upstream: str | None = None
    model: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        key = self.key and f"key-{self.key}"
        return "/".join(part or UNKNOWN for part in (self.upstream, self.model, key))

    @classmethod
    def of(cls, exchange: Exchange) -> Lane:
        """Return the lane of an exchange."""
        key = exchange.key_digest
        return cls(
            upstream=exchange.upstream,
            model=exchange.model,
            key=key and key.removeprefix("key-"),
        )

    @classmethod
    def read(cls, text: str) -> Lane:
        """Parse a lane; ``ValueError`` when it is not one."""
        upstream, first, rest = text.partition("/")
        model, second, key = rest.rpartition("/")
        if not (first and second):
            raise ValueError(f"lane: {text!r} is not upstream/model/key")
        return cls(
            upstream=None if upstream == UNKNOWN else upstream,
            model=None if model == UNKNOWN else model,
            key=None if key == UNKNOWN else key.removeprefix("key-"),
        )

    @property
    def route(self) -> str:
        """The upstream and the plain model, ``openai/gpt-5``, over any key."""
        return f"{self.upstream or UNKNOWN}/{plain(self.model) or UNKNOWN}"

    def meets(self, other: Lane) -> bool:
        """Return True if both can be the same lane: an unknown part matches anything."""
        return (
            _agree(self.upstream, other.upstream)
            and _agree(plain(self.model), plain(other.model))
            and _agree(self.key, other.key)
        )


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


@lru_cache(maxsize=4096)
def plain(model: str | None) -> str | None:
    """Return a model's name without its path and in lower case.

    Runners and routers write ``openai/gpt-5`` and ``models/gemini-2.5-pro`` for what the
    provider calls ``gpt-5`` and ``gemini-2.5-pro``.
    """
    return None if model is None else model.rpartition("/")[2].casefold()

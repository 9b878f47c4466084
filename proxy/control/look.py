"""A look for conditions that an operator is alerted of; all are in `proxy.control_plane`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.control.queries import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is wrong now: ``kind`` and ``subject`` name it, ``at`` is since when."""

    kind: str
    subject: str
    at: float
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions that a look found; ``watched`` are the subjects that it looked at.

    A subject is a ``kind`` or ``kind:subject``: what is of it and is not listed is over.
    """

    found: tuple[Condition, ...] = ()
    watched: frozenset[str] = field(default_factory=frozenset)


Look = Callable[[Service], Awaitable[Conditions]]
"""Looks once; raises Refusal 503 while the database is unavailable."""


def link_to(service: Service, path: str) -> dict[str, Any]:
    """Return a page's URL as a field of an alert; nothing where the service does not know its own.

    Arguments:
        path: of the page.
    """
    return {} if service.pages_url is None else {"url": service.pages_url.rstrip("/") + path}

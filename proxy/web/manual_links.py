"""The place of a manual: links to its pages, and what its text says to a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from proxy.feature import modules
from proxy.web.panels import NavigationItem


class Jump(NamedTuple):
    """A link, the kind of page that it leads to, what that belongs to, and a line of its text."""

    kind: str
    label: str
    path: str
    place: str | None = None
    line: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manual:
    """A manual made of the files of `docs/`.

    ``links`` stand in every page's foot. ``address``: returns the path at which a file is read.
    ``find``: returns links to what holds all words of a text, in a thread.
    """

    links: Sequence[NavigationItem]
    address: Callable[[str], str]
    find: Callable[[str], Sequence[Jump]]


@cache
def manual() -> Manual | None:
    """Import the manual that a feature has; None without one."""
    return next((module.MANUAL for _, module in modules("manual")), None)

"""Tabs of a batch's page, the kernel's own and those of features."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import Request

from proxy.web.context import PageContext

Facts = Mapping[str, Any]
"""What `proxy.control.dashboard.batch_detail` says of the batch."""


class OpenTab(NamedTuple):
    """A tab that is asked for: of which batch, by which request.

    ``show``, ``text`` and ``number`` are what an address may say of any tab: what is listed, a
    text that it has, and the page of the list.
    """

    context: PageContext
    request: Request
    batch: str
    facts: Facts
    show: str = ""
    text: str = ""
    number: int = 1


def _no_mark(_facts: Facts) -> None:
    """Mark nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTab:
    """One tab: its name in addresses, its label, and its template, which extends `batch_tab.html`.

    ``read`` returns the template's values. ``mark``: words that stand beside the label.
    """

    name: str
    label: str
    template: str
    read: Callable[[OpenTab], Awaitable[dict[str, Any]]]
    mark: Callable[[Facts], str | None] = _no_mark

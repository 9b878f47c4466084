"""Tabs of a batch's page, the kernel's own and those of features."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import Request, Response

from classifier.reruns import Rerun
from proxy.control.queries import Service
from proxy.web.context import PageContext

Facts = Mapping[str, Any]
"""A mapping of what `proxy.control.dashboard.batch_detail` says of the batch."""


Items = Sequence[tuple[str, str]]
"""The names and values of an address."""


class OpenTab(NamedTuple):
    """A tab that is asked for: of which batch, by which request, among which tabs.

    ``number`` is the page of its list.
    """

    context: PageContext
    request: Request
    batch: str
    facts: Facts
    tabs: Sequence[BatchTab]
    number: int = 1

    @property
    def items(self) -> Items:
        """The names and values of its address."""
        return self.request.query_params.multi_items()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTab:
    """One tab: its name in addresses, its label, and its template, which extends `batch_tab.html`.

    ``read`` returns the template's values, ``mark`` words that stand beside the label of a batch,
    ``count`` what the tab holds, by what is said of the batch.
    ``shorter`` returns the short query of a view whose address a form made, by the address's names
    and values and the batch; ``file`` answers with the rows of a view as a file that ends so.
    ``sections``: the anchors of its parts that list repeats to run again, one of each `Rerun`.
    """

    name: str
    label: str
    template: str
    read: Callable[[OpenTab], Awaitable[dict[str, Any]]]
    mark: Callable[[Service, str], Awaitable[str | None]] | None = None
    count: Callable[[Facts], str | None] | None = None
    sections: frozenset[Rerun] = frozenset()
    shorter: Callable[[Items, str], str | None] | None = None
    file: Callable[[Service, Items, str, str], Awaitable[Response]] | None = None


_USUAL_URL = "http://127.0.0.1:8383"  # the command line's, if it is given no other


def rerun_command(request: Request, batch: str, *kinds: str) -> str:
    """Return the command that prints a command for each repeat of some kinds, as it stands."""
    words = ["truezero", "rerun", batch]
    for kind in kinds:
        words += ["--only", kind]
    url = str(request.base_url).rstrip("/")
    words += [] if url == _USUAL_URL else ["--url", url]
    return shlex.join([*words, "--command"])

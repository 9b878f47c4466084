"""Places on pages where a feature shows something."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from classifier.fingerprints import Lane
from proxy.control.queries import Service


class PanelPlace(Enum):
    """A place, and whose name a panel there is read for."""

    ROLLOUT_SUMS = "among the sums of a rollout, which is named"
    BATCH_CHECK = "below what says whether a batch can be published, which is named"
    BATCH_COST = "above the tables of a batch's cost, which is named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A part of a page that a feature shows.

    ``template`` is in the folder ``templates`` of the feature, named ``feature/file.html``; there
    ``panel.value`` is what ``read`` returned. Where that is None, nothing is shown.
    """

    place: PanelPlace
    template: str
    read: Callable[[Service, str], Awaitable[Any]]


class NavigationItem(NamedTuple):
    """A link of every page's head: its name, for the page it leads to, its path and its label."""

    name: str
    path: str
    label: str


class BatchAction(NamedTuple):
    """Something to do with batches that are ticked in their list.

    ``path``: of the page that does it; each batch is a ``run`` of its query. ``verb`` stands where
    a batch is ticked, ``label`` on the button.
    """

    path: str
    verb: str
    label: str


class BatchMark(NamedTuple):
    """Words beside the names of some batches in their list, and a filter for those batches.

    ``name`` is the filter's in addresses, ``label`` its words; ``tab`` of a batch's page says more.
    ``read`` returns the words of each batch that has some.
    """

    name: str
    label: str
    tab: str
    read: Callable[[Service], Awaitable[Mapping[str, str]]]


class LaneMark(NamedTuple):
    """Words of a feature about one key and model, and the page that says more."""

    text: str
    path: str | None = None


class LaneColumn(NamedTuple):
    """A column of the table of upstreams, which has a row for each key and model.

    ``name`` is its name in addresses, ``label`` its head. ``read`` returns the marks of each lane
    that has some; the column is shown where one has.
    """

    name: str
    label: str
    read: Callable[[Service], Awaitable[Mapping[Lane, Sequence[LaneMark]]]]


class ShownPanel(NamedTuple):
    """A panel that is shown, with its value."""

    template: str
    value: Any


async def shown(
    panels: Sequence[Panel], place: PanelPlace, service: Service, name: str = ""
) -> list[ShownPanel]:
    """Return the panels that one place shows now, in their order."""
    return [
        ShownPanel(panel.template, value)
        for panel in panels
        if panel.place is place and (value := await panel.read(service, name)) is not None
    ]

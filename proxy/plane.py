"""The part of a feature in the control plane: routes, parts of pages, conditions for alerts.

`proxy.feature` says what a feature is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.routing import BaseRoute, Route

from proxy.control.look import Look
from proxy.control.queries import Service
from proxy.feature import FeatureError, modules
from proxy.web.batch_tabs import BatchTab
from proxy.web.context import PageSharing
from proxy.web.panels import BatchAction, BatchMark, LaneColumn, NavigationItem, Panel


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The part of one feature.

    ``routes`` come before the kernel's, of which two match any name of a batch or a rollout;
    ``tags`` are those of OpenAPI that only they have, as FastAPI takes them. ``head``: templates in
    the head of every page, behind the navigation. ``sharing``: makes what makes pages for several
    browsers at once; one feature may.
    """

    routes: Sequence[BaseRoute] = ()
    tags: Sequence[Mapping[str, str]] = ()
    panels: Sequence[Panel] = ()
    tabs: Sequence[BatchTab] = ()
    navigation: Sequence[NavigationItem] = ()
    batch_actions: Sequence[BatchAction] = ()
    batch_marks: Sequence[BatchMark] = ()
    lane_columns: Sequence[LaneColumn] = ()
    look: Look | None = None
    head: Sequence[str] = ()
    sharing: Callable[[Service], PageSharing] | None = None


@cache
def planes() -> list[Plane]:
    """Import what features add, in their order.

    Raises:
        FeatureError: a part of a page has a template that is not there, or two links of every
            page's head have one name, or two share pages.
    """
    found = {name: _with_templates(name, module.PLANE) for name, module in modules("plane")}
    sharing = [name for name, plane in found.items() if plane.sharing is not None]
    if len(sharing) > 1:
        raise FeatureError(f"features {sharing[0]!r} and {sharing[1]!r} both share pages")
    _check_distinct("link", [link.name for plane in found.values() for link in plane.navigation])
    return [*found.values()]


def _with_templates(name: str, plane: Plane) -> Plane:
    folder = files(f"proxy.features.{name}") / "templates"
    for template in (
        *(e.template for e in plane.panels),
        *(e.template for e in plane.tabs),
        *plane.head,
    ):
        of, _, file = template.partition("/")
        if of != name or not (folder / file).is_file():
            raise FeatureError(f"feature {name!r}: there is no template {template!r}")
    return plane


def all_routes(kernel: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the routes of features, then the kernel's, which match more.

    Raises:
        FeatureError: one of a feature answers what another route answers too.
    """
    added = [route for plane in planes() for route in plane.routes]
    _check_distinct("route", _answered(added), {*_answered(kernel)})
    return [*added, *kernel]


def all_tabs(kernel: Sequence[BatchTab]) -> list[BatchTab]:
    """Return the kernel's tabs of a batch, then those of features.

    Raises:
        FeatureError: one of a feature has the name of another tab.
    """
    added = [tab for plane in planes() for tab in plane.tabs]
    _check_distinct("tab", [tab.name for tab in added], {tab.name for tab in kernel})
    return [*kernel, *added]


_PARAMETER = re.compile(r"\{\w+")


def _answered(routes: Iterable[BaseRoute]) -> Iterator[str]:
    """Yield the methods and paths that routes answer, whatever their parameters are called."""
    for route in routes:
        if isinstance(route, Route):
            for method in route.methods or ():
                yield f"{method} {_PARAMETER.sub('{', route.path)}"


def _check_distinct(what: str, added: Iterable[str], known: Collection[str] = ()) -> None:
    seen = set(known)
    for each in added:
        if each in seen:
            raise FeatureError(f"{what} {each!r}: a feature adds it, and it is there already")
        seen.add(each)

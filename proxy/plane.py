"""The part of a feature in the control plane: routes, parts of pages, conditions for alerts.

`proxy.feature` says what a feature is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from starlette.routing import BaseRoute

from proxy.control.conditions import Look
from proxy.feature import modules
from proxy.web.batch_tabs import BatchTab
from proxy.web.panels import BatchAction, NavigationItem, Panel


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The part of one feature.

    ``routes`` come before the kernel's, of which two match any name of a batch or a rollout;
    ``tags`` are those of OpenAPI that only they have, as FastAPI takes them.
    """

    routes: Sequence[BaseRoute] = ()
    tags: Sequence[Mapping[str, str]] = ()
    panels: Sequence[Panel] = ()
    tabs: Sequence[BatchTab] = ()
    navigation: Sequence[NavigationItem] = ()
    batch_actions: Sequence[BatchAction] = ()
    look: Look | None = None


@cache
def planes() -> list[Plane]:
    """Import what features add, in their order."""
    return [module.PLANE for _, module in modules("plane")]

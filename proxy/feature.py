"""The places where a feature may add something to the service.

A feature is a folder of `proxy/features/`, whose name stands in `NAMES` there. Its ``FEATURE`` says
which of these modules it has; each is imported when it is needed, and once:

- ``settings``: ``SETTINGS``, a pydantic model whose fields are settings of the service;
  ``UPSTREAM_OPTIONS``, which read what it may say below an upstream; and
  ``announcements(settings)``, the lines that are said of them as the service starts.
- ``tables``: its tables, on the one metadata; they are made by a migration, as all are.
- ``registration``: what it takes of registrations, as `proxy.store.rollouts.RegistrationPart` says.
- ``upkeep``: ``on_dead_workers(connection, workers)`` and ``on_deleted_rollouts(connection,
  rollouts, batches)``, what becomes of its rows, in the transaction in which those go.
- ``final``: its part in final verdicts, as `proxy.store.verdicts.FinalPart` says.
- ``stakes``: ``may_be(database, batch, policy)`` and ``is_at(judged)``, whether something of its
  hangs on a verdict beside the score: then it is asked first whose failure that tells of.
- ``evidence``: ``EVIDENCE``, what verdicts stand on, as `proxy.control.evidence.EvidenceKind`.
- ``serving``: ``SERVING``, what it adds where the service is started, as
  `proxy.serving.ServingPart`.
- ``start``: ``start(parts)``, which returns what it does in a process, as `proxy.parts.Started`.
- ``sockets``: who takes agents' WebSockets, of one feature alone: ``server_options(max_bytes)``,
  the arguments of uvicorn's Config, and ``relay(context, reach)``, which returns
  `proxy.relay.sockets.AgentSockets`.
- ``plane``: ``PLANE``, what it adds to the control plane, as `proxy.plane.Plane`.

Nobody but `proxy.features` names one. Without its folder and its name there, the service starts,
and has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.features import NAMES

if TYPE_CHECKING:
    from pydantic import BaseModel

OF_SETTINGS = TypeVar("OF_SETTINGS")

ReadOption = Callable[[str, object], object]
"""Reads an option of an upstream, by the upstream's name; raises ValueError with a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature: the modules of its folder that the service looks at."""

    settings: bool = False
    tables: bool = False
    registration: bool = False
    upkeep: bool = False
    evidence: bool = False
    final: bool = False
    stakes: bool = False
    serving: bool = False
    start: bool = False
    sockets: bool = False
    plane: bool = False


class FeatureError(Exception):
    """A feature adds what the service cannot take: which one, and what."""


@cache
def features() -> Mapping[str, Feature]:
    """Return the features by name, in their order.

    Raises:
        FeatureError: one has no folder, or says nothing of itself.
    """
    found = {}
    for name in NAMES:
        try:
            found[name] = import_module(f"proxy.features.{name}").FEATURE
        except (AttributeError, ModuleNotFoundError) as error:
            raise FeatureError(f"feature {name!r}: {error}") from error
    return found


def modules(of: str) -> Iterator[tuple[str, Any]]:
    """Import a module of each feature that has it: the feature's name, and the module."""
    for name, feature in features().items():
        if getattr(feature, of):
            yield name, import_module(f"proxy.features.{name}.{of}")


def only_module(of: str) -> Any:
    """Import a module that one feature alone may have; None if none has it.

    Raises:
        FeatureError: several have it.
    """
    found = dict(modules(of))
    if len(found) > 1:
        raise FeatureError(f"only one feature may have {of}: {', '.join(found)}")
    return next(iter(found.values()), None)


def settings_of_features() -> Sequence[type[BaseModel]]:
    """Return what the features declare as settings.

    Raises:
        FeatureError: two declare one of the same name.
    """
    found: dict[str, tuple[str, type[BaseModel]]] = {}
    for name, module in modules("settings"):
        for setting in module.SETTINGS.model_fields:
            if setting in found:
                other = found[setting][0]
                raise FeatureError(f"setting {setting!r}: features {other!r} and {name!r} have it")
            found[setting] = name, module.SETTINGS
    return [*dict.fromkeys(kind for _, kind in found.values())]


def settings_of(settings: object, kind: type[OF_SETTINGS]) -> OF_SETTINGS:
    """Return the service's settings as those that a feature declares."""
    assert isinstance(settings, kind), f"{kind.__name__} are no settings of this service"
    return settings


def upstream_options() -> Mapping[str, ReadOption]:
    """Return what reads the options of upstreams that features have, by name."""
    found: dict[str, ReadOption] = {}
    for _, module in modules("settings"):
        found |= getattr(module, "UPSTREAM_OPTIONS", {})
    return found


def announcements(settings: object) -> list[str]:
    """Return what features say of their settings as the service starts."""
    return [
        line
        for _, module in modules("settings")
        if (say := getattr(module, "announcements", None)) is not None
        for line in say(settings)
    ]

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
- ``stakes``: ``is_at(judged)``, whether something of its hangs on a verdict beside the score: then
  it is asked first whose failure that tells of.
- ``evidence``: ``EVIDENCE``, what verdicts stand on, as
  `proxy.control.evidence_kinds.EvidenceKind`.
- ``serving``: ``SERVING``, what it adds where the service is started, as
  `proxy.serving.ServingPart`.
- ``start``: ``start(parts)``, which returns what it does in a process, as `proxy.parts.Started`.
- ``sockets``: who takes agents' WebSockets, of one feature alone: ``server_options(max_bytes)``,
  the arguments of uvicorn's Config, and ``relay(context, reach)``, which returns
  `proxy.relay.sockets.AgentSockets`.
- ``manual``: ``MANUAL``, where the documentation is read, as `proxy.web.manual_links` says.
- ``gauges``: ``GAUGES``, what it counts in the database for metrics, as
  `proxy.store.statistics.StoredGauge`.
- ``plane``: ``PLANE``, what it adds to the control plane, as `proxy.plane.Plane`.

Nobody but `proxy.features` names one. Without its folder and its name there, the service starts,
and has none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.features import NAMES

if TYPE_CHECKING:
    from pydantic import BaseModel

OF_SETTINGS = TypeVar("OF_SETTINGS")

ReadOption = Callable[[str, object], object]
"""Reads an option of an upstream, by the upstream's name; raises ValueError with a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature: the modules of its folder that the service looks at.

    Arguments:
        embedded: settings of a service that lives as long as a command, whatever a
            `truezero.toml` says.
    """

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
    manual: bool = False
    gauges: bool = False
    plane: bool = False
    embedded: Mapping[str, str] = field(default_factory=dict)


class FeatureError(Exception):
    """A feature adds what the service cannot take: which one, and what."""


@cache
def features() -> Mapping[str, Feature]:
    """Return the features by name, in their order.

    Raises:
        FeatureError: one is named twice, has no folder, says nothing of itself, or lacks a module
            that it says it has.
    """
    found: dict[str, Feature] = {}
    for name in NAMES:
        try:
            feature = import_module(f"proxy.features.{name}").FEATURE
        except (AttributeError, ModuleNotFoundError) as error:
            raise FeatureError(f"feature {name!r}: {error}") from error
        if name in found:
            raise FeatureError(f"feature {name!r}: it is named twice")
        if not isinstance(feature, Feature):
            raise FeatureError(f"feature {name!r}: its FEATURE is no Feature")
        for part in fields(feature):
            if getattr(feature, part.name) is True and not _has_module(name, part.name):
                raise FeatureError(f"feature {name!r}: it has no module {part.name!r}")
        found[name] = feature
    return found


def _has_module(name: str, part: str) -> bool:
    """Return True if a feature has a module; what stands in it is read later."""
    return find_spec(f"proxy.features.{name}.{part}") is not None


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


def settings_of_features(kernel: Collection[str] = ()) -> Sequence[type[BaseModel]]:
    """Return what the features declare as settings.

    Arguments:
        kernel: the names of the settings that are no feature's.

    Raises:
        FeatureError: two declare one of the same name, or one is the kernel's.
    """
    found: dict[str, tuple[str, type[BaseModel]]] = {}
    for name, module in modules("settings"):
        for setting in module.SETTINGS.model_fields:
            if setting in kernel:
                raise FeatureError(f"setting {setting!r}: the kernel and feature {name!r} have it")
            if setting in found:
                other = found[setting][0]
                raise FeatureError(f"setting {setting!r}: features {other!r} and {name!r} have it")
            found[setting] = name, module.SETTINGS
    return [*dict.fromkeys(kind for _, kind in found.values())]


def settings_of(settings: object, kind: type[OF_SETTINGS]) -> OF_SETTINGS:
    """Return the service's settings as those that a feature declares."""
    assert isinstance(settings, kind), f"{kind.__name__} are no settings of this service"
    return settings


def embedded_settings() -> dict[str, str]:
    """Return the settings with which features have a service live as long as a command."""
    return {name: value for each in features().values() for name, value in each.embedded.items()}


def upstream_options(kernel: Collection[str] = ()) -> Mapping[str, ReadOption]:
    """Return what reads the options of upstreams that features have, by name.

    Arguments:
        kernel: the names of the options that are no feature's.

    Raises:
        FeatureError: two have one of the same name, or one is the kernel's.
    """
    found: dict[str, ReadOption] = {}
    owners = dict.fromkeys(kernel, "the kernel")
    for name, module in modules("settings"):
        for option, read in getattr(module, "UPSTREAM_OPTIONS", {}).items():
            if option in owners:
                raise FeatureError(
                    f"option {option!r} of upstreams: {owners[option]} and feature {name!r} have it"
                )
            found[option], owners[option] = read, f"feature {name!r}"
    return found


def announcements(settings: object) -> list[str]:
    """Return what features say of their settings as the service starts."""
    return [
        line
        for _, module in modules("settings")
        if (say := getattr(module, "announcements", None)) is not None
        for line in say(settings)
    ]

"""Find the calls to the model under test, whatever upstreams and gateways call it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from classifier.logical_calls import LogicalCall
from classifier.model_names import canonical, unsized
from classifier.records import RolloutRecord


class MainLane(NamedTuple):
    """The calls to the model under test.

    ``bound``: registration names them, so that no other call counts as reaching the model.
    ``unseen``: a model is registered, and no call asked for it or was answered by it.
    """

    calls: tuple[LogicalCall, ...]
    bound: bool = False
    unseen: bool = False


def main_lane_of(calls: tuple[LogicalCall, ...], rollout: RolloutRecord) -> MainLane:
    """Return the calls to the model under test, over any key.

    Registration names it by upstream, model and declared fallbacks; what no call went to
    binds nothing. Else it is the model whose calls carry tools, else the one with the most
    request bytes, over any upstream.
    """
    pool: Sequence[LogicalCall] = _at(calls, rollout.upstream) or calls
    by_model: dict[str | None, list[LogicalCall]] = {}
    for call in pool:
        by_model.setdefault(call.model, []).append(call)
    models = rollout.models
    named = {name for model in models for name in _named(by_model, model)}
    bound = bool(named) or pool is not calls
    unseen = bool(models and calls) and not named and None not in _names(calls)
    if len(by_model) > 1:
        chosen = named or {max(by_model.items(), key=_weight)[0]}
        pool = [call for call in pool if call.model in chosen]
    return MainLane(calls if len(pool) == len(calls) else tuple(pool), bound, unseen)


def _at(calls: Iterable[LogicalCall], upstream: str | None) -> list[LogicalCall]:
    return [call for call in calls if call.asked.upstream == upstream] if upstream else []


def _names(calls: Iterable[LogicalCall]) -> set[str | None]:
    return {call.model or call.last.answered_model for call in calls}


def _named(by_model: dict[str | None, list[LogicalCall]], model: str) -> set[str | None]:
    return _equal(by_model, model, canonical) or _equal(by_model, model, unsized)


def _equal(
    by_model: dict[str | None, list[LogicalCall]],
    model: str,
    key: Callable[[str | None], str | None],
) -> set[str | None]:
    """Return the models that were asked for or that answered under an equal name."""
    wanted = key(model)
    return {
        name
        for name, calls in by_model.items()
        if key(name) == wanted or any(key(call.last.answered_model) == wanted for call in calls)
    }


def _weight(item: tuple[str | None, list[LogicalCall]]) -> tuple[bool, int, int, str]:
    name, calls = item
    tools = any(call.asked.has_tools for call in calls)
    return (tools, sum(call.asked.request_bytes for call in calls), len(calls), name or "")

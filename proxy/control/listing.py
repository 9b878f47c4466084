"""Lists of rollouts with up-to-date verdicts, and search by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement

from proxy.control import judge
from proxy.control.queries import (
    PAGE,
    Service,
    cursor_name,
    cursor_number,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
    run_in_thread,
)
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import normalised
from proxy.store import batch_counts, listing
from proxy.store.batches import newest
from proxy.store.listing import FLAGS, Facts, Position, RolloutQuery, grouped
from truezero.mistakes import nearest_ones
from truezero.models.batches import NO_BATCH, ListParameters
from truezero.models.rollouts import RolloutItem

ITEMS = 100  # on a page, unless it asks for more
_COUNTED = 1000  # rollouts of a view that are added up
_RUNNING = 4  # rollouts that run and are judged for a page; the others' verdicts are older

_FILTERS = (
    "batch", "task", "repeat", "attempt", "model", "upstream", "role", "health", "subcategory",
    "fingerprint", "cause", "rule", "validity", "reward", "reported", "scoreable",
)  # fmt: skip
_ITEM = tuple(
    name
    for name in RolloutItem.model_fields
    if name not in ("validity", "reported_reward", "own_failures")
)


T = TypeVar("T")


async def rollout_page(service: Service, parameters: ListParameters) -> dict[str, Any]:
    """Return a page of rollouts and the cursor of the next one.

    Raises:
        Refusal: 422 if ``after`` is not a cursor of such a list.
    """
    rows, following = await rollout_rows(service, parameters)
    return {"items": _items(rows), "next": following}


async def rollout_rows(
    service: Service,
    parameters: ListParameters,
    *,
    columns: Sequence[ColumnElement[Any]] = listing.ITEM,
    fresh: bool = False,
) -> tuple[list[Facts], str | None]:
    """Return the columns of a page of rollouts and the cursor of the next one.

    Each has an up-to-date verdict, of those that still run a part.

    Arguments:
        columns: as for `proxy.store.listing.page`.
        fresh: stale verdicts were refreshed just before.

    Raises:
        Refusal: 422 if ``after`` is not a cursor of such a list.
    """
    query, limit = query_of(parameters), parameters.limit or ITEMS
    after = position_of(parameters.after, query)
    if query.by_verdict and not fresh:
        await _refresh(service, query, running=_RUNNING)
        fresh = True
    rows = await _read(service, query, after, limit + 1, columns, fresh=fresh, running=_RUNNING)
    more = len(rows) > limit
    return rows[:limit], cursor_of(query, rows[limit - 1]) if more else None


async def rollout_groups(
    service: Service, parameters: ListParameters, by: str, *, limit: int
) -> list[Facts]:
    """Count the rollouts of a list by a value that they share.

    Arguments:
        by: one of `proxy.store.listing.GROUPS`.
    """
    query = query_of(parameters)
    await _refresh(service, query, running=_RUNNING)
    return await service.read(grouped, query, by, limit=limit)


async def view_totals(service: Service, parameters: ListParameters) -> dict[str, Any]:
    """Add up the first thousand rollouts of a list, as they were judged for its page.

    Returns:
        ``rollouts``, ``scoreable`` ones, ``total_tokens`` and ``cost_usd`` (None if no verdict
        says), and if there are ``more``.
    """
    totals = await service.read(listing.view_totals, query_of(parameters), most=_COUNTED)
    return totals._asdict()


async def beside(
    service: Service, parameters: ListParameters, rollout_id: str
) -> tuple[str | None, str | None]:
    """Return the ids of the rollouts before and after one in a list.

    None if there is none, if that one is unknown, and before the first of those for which
    ``sort`` is unknown.
    """
    query = query_of(parameters)
    columns = listing.with_place(query)
    rows = await service.read(listing.items_of, [rollout_id], columns=columns)
    if not rows:
        return None, None
    place = listing.position(query, rows[0])
    turned = replace(query, descending=not query.descending)
    before, after = [
        await service.read(listing.page, each, after=place, limit=1) for each in (turned, query)
    ]
    if before and listing.position(query, before[0]).value is None and place.value is not None:
        before = []
    return _first_id(before), _first_id(after)


def all_rollouts(
    service: Service, parameters: ListParameters
) -> AsyncIterator[list[dict[str, Any]]]:
    """Return all rollouts from ``after`` on, at most ``limit``, some at a time.

    Raises:
        Refusal: 422 if ``after`` is not a cursor of such a list.
    """
    query = query_of(parameters)
    after = position_of(parameters.after, query)
    return in_pages(service, query, after, parameters.limit, _rows_of_files, columns=listing.FILED)


async def in_pages(
    service: Service,
    query: RolloutQuery,
    after: Position | None,
    left: int | None,
    shown: Callable[[Sequence[Facts]], list[T]],
    *,
    columns: Sequence[ColumnElement[Any]] = listing.ITEM,
    fresh: bool = False,
) -> AsyncIterator[list[T]]:
    """Yield what is shown of the rollouts of a list from a place on, some at a time.

    Arguments:
        left: how many at most.
        columns: of what is shown.
        fresh: their verdicts may be out of date, unless the list depends on them.
    """
    if query.by_verdict:
        await _refresh(service, query)
        fresh = True
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        rows = await _read(service, query, after, size, columns, fresh=fresh)
        if rows:
            yield shown(rows)
            after = listing.position(query, rows[-1])
        if len(rows) < size:
            return
        left = None if left is None else left - size


async def _read(
    service: Service,
    query: RolloutQuery,
    after: Position | None,
    limit: int,
    columns: Sequence[ColumnElement[Any]],
    *,
    fresh: bool,
    running: int | None = None,
) -> list[Facts]:
    """Read rollouts, again if one of them had to be judged.

    Arguments:
        running: as for `judge.refresh`.
    """

    async def read() -> list[Facts]:
        return await service.read(listing.page, query, after=after, limit=limit, columns=columns)

    rows = await read()
    if not fresh and await judge.refresh(service, among=ids_of(rows), running=running):
        rows = await read()
    return rows


async def _refresh(service: Service, query: RolloutQuery, *, running: int | None = None) -> None:
    """Judge the rollouts that the list's filters and order depend on: more than it shows.

    Arguments:
        running: as for `judge.refresh`.
    """
    batches = query.filters.get("batch", (None,))
    for batch in (None,) if None in batches else batches:
        name = None if batch is None else str(batch)
        await judge.refresh(service, name, running=running)


def _items(rows: Sequence[Facts]) -> list[dict[str, Any]]:
    return [
        {
            **{name: row[name] for name in _ITEM},
            "reported_reward": reported_in(row),
            "validity": (row["findings"] or "").split(),
            "own_failures": bool(row["own_failures"]),
        }
        for row in rows
    ]


def _rows_of_files(rows: Sequence[Facts]) -> list[dict[str, Any]]:
    """Return items with ``held_s`` and ``only_one``: then it is known to be its task's first."""
    items = _items(rows)
    for item, row in zip(items, rows, strict=True):
        item |= {"held_s": row["held_s"], "only_one": bool(row["only_one"])}
    return items


def reported_in(row: Mapping[str, Any]) -> float | None:
    """Return the reward that a rollout's runner reported, also where it does not count."""
    outcome = row["outcome"]
    return outcome and batch_counts.reported_in(outcome, row["score_key"]).score


def _first_id(rows: Sequence[Facts]) -> str | None:
    return next(iter(ids_of(rows)), None)


def ids_of(rows: Sequence[Facts]) -> list[str]:
    """Return the ids of rollouts that were read."""
    return [row["id"] for row in rows]


def query_of(parameters: ListParameters) -> RolloutQuery:
    """Return the store's query for the parameters of a list."""
    filters: dict[str, list[Any]] = {
        name: list(dict.fromkeys(values))
        for name in _FILTERS
        if (values := getattr(parameters, name))
    }
    if NO_BATCH in parameters.batch:
        filters["batch"] = [None if name == NO_BATCH else name for name in filters["batch"]]
    if parameters.upstream:
        filters["upstream"] = list(map(normalised, parameters.upstream))
    return RolloutQuery(
        filters=filters,
        text=parameters.text,
        flags={name: value for name in FLAGS if (value := getattr(parameters, name)) is not None},
        since=parameters.since,
        until=parameters.until,
        failed_since=parameters.failed_since,
        failed_until=parameters.failed_until,
        sort=parameters.sort,
        descending=parameters.order == "desc",
    )


def cursor_of(query: RolloutQuery, row: Facts) -> str:
    """Return the cursor with which a list goes on after a rollout.

    In order of time it is as in the first release; in another order it names that order.
    """
    place = listing.position(query, row)
    parts: list[Any] = [place.created_at, place.id]
    if query.sort != "created_at":
        parts += [query.sort, place.value]
    return encode_cursor(parts)


# By the type of a value in a cursor, its check; and by that of a column, its types of numbers.
_CURSOR_VALUES: Mapping[type, Callable[[Any], str | float | bool]] = {
    str: cursor_name, int: cursor_number, float: cursor_number, bool: bool,
}  # fmt: skip
_NUMBERS: Mapping[type, type] = {int: float}


def position_of(cursor: str | None, query: RolloutQuery) -> Position | None:
    """Return the place that a cursor names; None if there is no cursor.

    Raises:
        Refusal: 422 if it is not the cursor of a list in this order.
    """
    if cursor is None:
        return None
    try:
        created_at, name, *order = decode_cursor(cursor)
        sort, value = order or ("created_at", None)
        known = None if value is None else _CURSOR_VALUES[type(value)](value)
        place = Position(cursor_number(created_at), cursor_name(name), known)
    except (ValueError, TypeError, OverflowError, KeyError):
        raise invalid_cursor() from None
    kind = listing.SORTS[query.sort].type.python_type
    if sort != query.sort or not (known is None or isinstance(known, _NUMBERS.get(kind, kind))):
        raise Refusal(422, "invalid", f"after: not a cursor of a list by {query.sort}")
    return place


# --- search by a part of a name ----------------------------------------------------------------


EACH = 6  # of each kind

NAMED = ("batch", "task", "cause", "rollout")
"""Kinds that are found by their name, in the order in which they are shown."""
_SEARCH_ORDER = (*NAMED, "page", "help", "search")


class SearchMatch(NamedTuple):
    """Something that has a page: its kind (``batch``, ``task``, ``rollout``, ``cause``), its name.

    ``place`` is the batch of a task.
    """

    kind: str
    name: str
    place: str | None = None


def search_rank(kind: str, name: str, text: str) -> tuple[bool, bool, int]:
    """Return where something found by a text is shown, the lowest first: each search asks here.

    What has exactly that name comes first, led by the rollout with that id; then batches, tasks,
    causes, rollouts, pages, help, and the link to the search itself.
    """
    is_named = kind in NAMED and name.casefold() == text.casefold()
    is_id = kind == "rollout" and name == text
    return not is_named, not is_id, _SEARCH_ORDER.index(kind)


async def search(service: Service, text: str) -> list[SearchMatch]:
    """Return the names that a text may mean, up to six of each kind; none for an empty one.

    They are in the order of `search_rank`, rollouts the newest first. The words of a text may be
    in any order, also in the name of the batch.
    """
    if not text:
        return []
    exact = await service.read(listing.has_rollout, text)
    batches = await service.read(listing.find_batches, text, limit=EACH)
    tasks = await service.read(listing.find_tasks, text, limit=EACH)
    causes = await service.read(listing.find_fingerprints, text, limit=EACH)
    rollouts = await service.read(listing.find_rollouts, text, limit=EACH)
    matches = [
        *(SearchMatch("batch", name) for name in batches),
        *(SearchMatch("task", name, batch) for name, batch in tasks),
        *(SearchMatch("cause", name) for name in causes),
        *(SearchMatch("rollout", name) for name in dict.fromkeys([*[text] * exact, *rollouts])),
    ]
    return sorted(matches, key=lambda each: search_rank(each.kind, each.name, text))


_NEWEST = 1_000  # batches among which a misspelt one is looked for


async def near_names(service: Service, kind: str, name: str) -> Sequence[str]:
    """Return names of batches or rollouts close to one that does not exist, the closest first.

    Arguments:
        kind: ``batches`` or ``rollouts``, of which those that begin alike are looked at.
    """
    if kind == "batches":
        rows = await service.read(newest, limit=_NEWEST)
        return await run_in_thread(nearest_ones, name, [row["batch"] for row in rows])
    for share in (0.9, 0.7, 0.5, 0.3):
        begin = name[: int(len(name) * share)]
        if begin and (found := await service.read(listing.find_rollouts, begin, limit=_NEWEST)):
            return await run_in_thread(nearest_ones, name, found)
    return []

"""The view of a table whose rows a page has at hand: filters, order, and the addresses of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from proxy.control.dashboard import sort_known
from proxy.routing.errors import Refusal
from proxy.web.list_pages import last, parted, short_query, typed

T = TypeVar("T")


class QuickFilter(NamedTuple):
    """A filter at hand: its words, how many rows it shows, its query, and whether it is set."""

    label: str
    rows: int | None
    query: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """The rows of a table that an address names, and their order.

    ``kept`` is what every address of the page has, ``filters`` what can be removed from it.
    ``columns`` are shown, beside the first one, ``usual`` unless others are chosen. ``sort`` is a
    column, ``usual_sort`` the one that addresses leave out; columns in ``down`` begin with the
    largest unless they are turned. ``named`` are filters that may be typed: see `typed`.
    """

    kept: Sequence[tuple[str, str]]
    filters: Sequence[tuple[str, str]]
    columns: Sequence[str]
    usual: Sequence[str]
    sort: str
    descending: bool
    usual_sort: str
    down: Collection[str]
    named: Collection[str] = ()

    def query(self, **changes: str | None) -> str:
        """Return the query of the page with other values; None takes a name away."""
        return self._query(self.sort, self.descending, changes)

    def _query(self, sort: str, descending: bool, changes: dict[str, str | None]) -> str:
        order = [("sort", sort)] if sort != self.usual_sort else []
        if descending != (sort in self.down):
            order.append(("order", "desc" if descending else "asc"))
        chosen = [] if self.columns == self.usual else [("columns", each) for each in self.columns]
        items = (*self.kept, *self.filters, *order, *chosen)
        unchanged = [each for each in items if each[0] not in changes]
        changed = [(name, value) for name, value in changes.items() if value is not None]
        return short_query([*unchanged, *changed])

    def without(self, *names: str) -> list[tuple[str, str]]:
        """Return the address's names and values but for some: what a form about those keeps."""
        return parse_qsl(self.query(**dict.fromkeys(names)))

    def sorted_by(self, name: str) -> str:
        """Return the query that sorts by a column, or turns its order."""
        turned = name == self.sort and self.descending == (name in self.down)
        return self._query(name, (name in self.down) != turned, {})

    def direction(self, name: str) -> str | None:
        """Return ``ascending`` or ``descending`` if the table is sorted by a column, else None."""
        if name != self.sort:
            return None
        return "descending" if self.descending else "ascending"

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """The filters: their names, their values, and the query of the page without each."""
        return [
            (*chip, replace(self, filters=[each for each in self.filters if each != chip]).query())
            for chip in self.filters
        ]

    @property
    def cleared(self) -> str:
        """The query of the page without any filter."""
        return self.query(**{name: None for name, _ in self.filters})

    def values(self, name: str) -> list[str]:
        """Return all values of a filter."""
        return [value for key, value in self.filters if key == name]

    def shorter(self, items: Sequence[tuple[str, str]]) -> str | None:
        """Return the short query of this view if a form made its address; None if none did.

        A form names each of its fields, also the empty ones, and each ticked box by itself.
        """
        names = [name for name, _ in items]
        made = not all(value for _, value in items) or names.count("columns") > 1
        made = made or typed(items, self.named) != [*items]
        return self.query() if made else None

    def file_columns(self, of: Mapping[str, Sequence[str]], first: str) -> list[str]:
        """Return the columns of the view as a file: those that show it, of each that is shown."""
        return [name for column in (first, *self.columns) for name in of[column]]

    def ordered(self, rows: Iterable[T], value: Callable[[T], Any]) -> list[T]:
        """Sort rows by a value of each, those without one last; alike ones stay in order."""
        return sort_known(rows, value, descending=self.descending)


def read_table(
    items: Sequence[tuple[str, str]],
    *,
    kept: Sequence[str],
    filters: Sequence[str],
    columns: Sequence[str],
    usual: Sequence[str] | None = None,
    usual_sort: str,
    down: Collection[str],
    several: Collection[str] = (),
    sortable: Collection[str] | None = None,
) -> TableView:
    """Read the view that an address names. Empty fields are left out.

    Arguments:
        kept: names of parameters that every address of the page keeps.
        filters: names of those that can be removed.
        columns: of the table; the first is always shown.
        usual: those that are shown unless others are chosen; None: all.
        several: names of filters that may have more than one value.
        sortable: columns that sort the table; None: all.

    Raises:
        Refusal: 422 for a column or an order that there is not.
    """
    named = {*filters} - {"text"}
    items = typed(items, named)
    possible = columns[1:]
    usual = [*(possible if usual is None else usual)]
    chosen = _all(items, "columns")
    if unknown := [name for name in chosen if name not in possible]:
        raise Refusal(422, "invalid", f"columns: {unknown[0]!r} is none of {', '.join(possible)}")
    sort, order = last(items, "sort") or usual_sort, last(items, "order")
    sortable = columns if sortable is None else sortable
    if sort not in sortable:
        raise Refusal(422, "invalid", f"sort: {sort!r} is none of {', '.join(sortable)}")
    if order not in ("", "asc", "desc"):
        raise Refusal(422, "invalid", "order: asc or desc")
    return TableView(
        kept=[(name, value) for name, value in items if name in kept and value],
        filters=[
            (name, value)
            for name in filters
            for value in (_all(items, name) if name in several else [last(items, name)])
            if value
        ],
        columns=chosen or usual,
        usual=usual,
        sort=sort,
        descending=order == "desc" if order else sort in down,
        usual_sort=usual_sort,
        down=down,
        named=named,
    )


def _all(items: Sequence[tuple[str, str]], of: str) -> list[str]:
    """Return the values of a name that an address joins by commas or repeats, each once."""
    named = parted(items, (of,))
    return [*dict.fromkeys(value for name, value in named if name == of and value)]

"""The page on which any rollouts are found: filters, sorting, columns, groups, and files of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import Request, Response

from proxy.api.lists import FORMATS, Format, file_of
from proxy.routing.errors import Refusal
from proxy.web import list_form
from proxy.web.context import Context, page_router
from proxy.web.list_form import ListForm
from truezero import models
from truezero.models.lists import NO_BATCH

GROUPED = 200  # groups on the page

# Columns by name: label, and what the list can be sorted by.
COLUMNS: Mapping[str, str] = {
    "batch": "Batch", "task": "Task", "repeat": "Repeat", "attempt": "Attempt", "model": "Model",
    "upstream": "Upstream", "health": "Verdict", "subcategory": "Subcategory",
    "fingerprint": "Fingerprint", "cause": "Cause", "scoreable": "Scoreable", "reward": "Reward",
    "total_tokens": "Tokens", "cost_usd": "Cost", "created_at": "Started",
    "reported_at": "Reported", "registered": "Registered", "provisional": "Provisional",
    "validity": "Found",
}  # fmt: skip
USUAL = (
    "batch", "task", "health", "fingerprint", "reward", "total_tokens", "cost_usd", "created_at",
)  # fmt: skip
NUMBERS = frozenset(("repeat", "attempt", "reward", "total_tokens", "cost_usd"))
GROUPS = (
    "batch", "task", "model", "upstream", "health", "subcategory", "fingerprint", "cause",
    "scoreable",
)  # fmt: skip
# Filters of which several can be ticked, and those that are written.
CHOICES: Mapping[str, Sequence[str]] = {
    "health": get_args(models.Health),
    "subcategory": get_args(models.Subcategory),
    "scoreable": get_args(models.Scoreable),
    "reward": get_args(models.RewardKind),
    "validity": get_args(models.Validity),
}
WRITTEN = ("batch", "task", "model", "upstream", "role", "fingerprint", "cause")
_SORTS = frozenset(get_args(models.Sort))
_FILES: Mapping[str, Format] = {each.ending: each for each in FORMATS.values()}
_OWN = ("columns", "by", "file")

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreView:
    """What the page shows of a list, and the addresses that lead on from there.

    ``columns`` are names of `COLUMNS`; ``by`` is one of `GROUPS`, or empty.
    """

    form: ListForm
    columns: Sequence[str]
    by: str

    def query(self, **changes: str | None) -> str:
        """Return the query of the page with other values; None takes a name away."""
        own = [] if tuple(self.columns) == USUAL else [("columns", name) for name in self.columns]
        own += [("by", self.by)] if self.by else []
        kept = [(name, value) for name, value in (*self.form.given, *own) if name not in changes]
        return urlencode([*kept, *((name, to) for name, to in changes.items() if to is not None)])

    def sorted_by(self, name: str) -> str | None:
        """Return the query that sorts by a column, the other way round where it is; None: never."""
        if name not in _SORTS:
            return None
        down = self.form.asked.sort == name and self.form.asked.order == "desc"
        return self.query(sort=name, order="asc" if down else "desc")

    def direction(self, name: str) -> str | None:
        """Return ``ascending`` or ``descending`` where the list is sorted by a column."""
        if self.form.asked.sort != name:
            return None
        return "descending" if self.form.asked.order == "desc" else "ascending"

    def narrowed(self, value: str | None) -> str | None:
        """Return the query of one group's rollouts; None where no filter says so."""
        if value is None and self.by != "batch":
            return None
        return self.query(**{self.by: NO_BATCH if value is None else value, "by": None})

    def values(self, name: str) -> list[str]:
        """Return all values of a filter."""
        given: list[Any] = getattr(self.form.asked, name)
        return list(map(str, given))


@router.get("/ui/rollouts")
async def _explore(context: Context, request: Request) -> Response:
    items = request.query_params.multi_items()
    view = read_view(items)
    if wanted := _last(items, "file"):
        if wanted not in _FILES:
            raise Refusal(422, "invalid", f"file: one of {', '.join(_FILES)}")
        columns = ("id", *view.columns)
        return await file_of(
            context.services.listing, view.form.asked, _FILES[wanted], columns=columns
        )
    asked = view.form.asked
    groups = rollouts = following = None
    if view.by:
        groups = await context.services.listing.groups(asked, view.by, limit=GROUPED + 1)
    else:
        rollouts, following = await context.dashboard.rollouts(asked)
    return await context.page(
        "explore.html",
        request,
        "rollouts",
        view=view,
        form=view.form,
        rollouts=rollouts,
        following=following,
        groups=groups if groups is None else groups[:GROUPED],
        more_groups=groups is not None and len(groups) > GROUPED,
        labels=COLUMNS,
        numbers=NUMBERS,
        by_names=GROUPS,
        choices=CHOICES,
        written=WRITTEN,
        files=list(_FILES),
        live="",
    )


def read_view(items: Sequence[tuple[str, str]]) -> ExploreView:
    """Read what an address asks the page for.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    form = list_form.read_form([each for each in items if each[0] not in _OWN])
    chosen = dict.fromkeys(value for name, value in items if name == "columns" and value)
    by = _last(items, "by")
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise Refusal(422, "invalid", f"columns: {unknown[0]!r} is none of {', '.join(COLUMNS)}")
    if by and by not in GROUPS:
        raise Refusal(422, "invalid", f"by: {by!r} is none of {', '.join(GROUPS)}")
    return ExploreView(form=form, columns=tuple(chosen) or USUAL, by=by)


def _last(items: Sequence[tuple[str, str]], name: str) -> str:
    return next((value for key, value in reversed(items) if key == name), "")

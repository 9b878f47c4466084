"""The pages that find rollouts: lists with filters, columns, groups and files; search by name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import parse_qsl, urlencode

from fastapi import Request, Response
from pydantic import ValidationError

from proxy.api.lists import FORMATS, Format, Rows, file_response
from proxy.api.problems import invalid
from proxy.control.dashboard import judged_rollouts
from proxy.control.listing import (
    SearchMatch,
    all_rollouts,
    rollout_groups,
    search,
    search_rank,
    view_totals,
)
from proxy.control.queries import Service, path_of, run_in_thread
from proxy.routing.errors import Refusal
from proxy.web.context import Context, Text, page_router, redirect
from proxy.web.manual_links import Jump, manual
from proxy.web.panels import NavigationItem
from truezero import models
from truezero.models.batches import NO_BATCH
from truezero.printable import plural

# --- form of a list ----------------------------------------------------------------------------
# Read from a page's address, with the addresses of the pages that follow.


_RENAMED = {"q": "text"}  # as pages of the first release had it
_DROPPED = ("page",)  # likewise: pages had numbers
# Of several values an address has one parameter, joined by commas, which none of them contains.
_JOINED = frozenset(
    ("health", "subcategory", "scoreable", "reward", "reported", "validity", "repeat", "attempt")
)
_ASSUMED = (("sort", "created_at"), ("order", "desc"))
_PLAIN = ",:/@"  # may stand in a query as they are (RFC 3986, 3.4)


def parted(items: Sequence[tuple[str, str]], names: Container[str]) -> list[tuple[str, str]]:
    """Part the values that an address joins by commas, those of these names."""
    return [
        (name, part)
        for name, value in items
        for part in (value.split(",") if name in names else [value])
    ]


_TYPED = re.compile(r"(?<!\S)([a-z_]+):(\S+)")


def typed(items: Sequence[tuple[str, str]], names: Container[str]) -> list[tuple[str, str]]:
    """Take the filters out of what was typed into a search: ``upstream:openai`` is one.

    Arguments:
        names: of filters; a word before another colon stays text.
    """
    parted_: list[tuple[str, str]] = []
    for name, value in items:
        found = [each for each in _TYPED.findall(value) if each[0] in names]
        if name != "text" or not found:
            parted_.append((name, value))
            continue
        rest = _TYPED.sub(lambda each: "" if each[1] in names else each[0], value)
        parted_ += [("text", " ".join(rest.split())), *found]
    return parted_


def short_query(items: Sequence[tuple[str, str]]) -> str:
    """Return the query of an address in as few characters as can be read."""
    joined: dict[str, list[str]] = {}
    for name, value in items:
        if name in _JOINED or name == "columns":
            joined.setdefault(name, []).append(value)
    rest = [each for each in items if each[0] not in joined]
    together = [(name, ",".join(values)) for name, values in joined.items()]
    return urlencode([*rest, *together], safe=_PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """The parameters of a list, for the form above it and the links below it.

    ``query_items`` are the address's names and values, without the cursor.
    """

    parameters: models.ListParameters
    query_items: Sequence[tuple[str, str]]

    def value(self, name: str) -> str:
        """Return the value of a field of the form; empty if any value matches."""
        return next((value for key, value in self.query_items if key == name), "")

    @property
    def query(self) -> str:
        """The query of the first page; empty if the list has all rollouts."""
        return short_query(self.query_items)


def read_form(items: Sequence[tuple[str, str]], *, batch: str | None = None) -> ListForm:
    """Read the query of a page that shows a list, the newest first. Empty fields are left out.

    Arguments:
        batch: of the page that the list is on, in place of a ``batch`` of the query.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    dropped = _DROPPED if batch is None else (*_DROPPED, "batch")
    items = [(_RENAMED.get(name, name), value) for name, value in items if value]
    items = [each for each in parted(items, _JOINED) if each[0] not in dropped]
    items = [each for each in items if each not in _ASSUMED]
    several: dict[str, list[str]] = {}
    for name, value in items:
        several.setdefault(name, []).append(value)
    chosen = {"order": "desc", **{name: _as_field(name, all_) for name, all_ in several.items()}}
    if batch is not None:
        chosen["batch"] = [batch]
    try:
        parameters = models.ListParameters.model_validate(chosen)
    except ValidationError as error:
        errors = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise invalid(errors, {"query": models.ListParameters}) from None
    return ListForm(
        parameters=parameters, query_items=[each for each in items if each[0] != "after"]
    )


def _as_field(name: str, values: Sequence[str]) -> Sequence[str] | str:
    field = models.ListParameters.model_fields.get(name)
    return values[-1] if field is not None and field.default_factory is None else values


# --- page of lists -----------------------------------------------------------------------------


GROUPED = 200  # groups on the page

# Columns by name, with their labels.
COLUMNS: Mapping[str, str] = {
    "batch": "Batch", "task": "Task", "repeat": "Repeat", "attempt": "Attempt", "model": "Model",
    "upstream": "Upstream", "health": "Verdict", "subcategory": "Subcategory",
    "fingerprint": "Why", "cause": "Cause", "scoreable": "Scoreable", "reward": "Reward",
    "reported_reward": "Reported reward",
    "total_tokens": "Tokens", "cost_usd": "Cost", "created_at": "Started",
    "reported_at": "Reported", "registered": "Registered", "provisional": "Provisional",
    "validity": "Found", "held_s": "Waiting at the proxy", "asked": "Proxy asked",
}  # fmt: skip
UNSORTED = frozenset(("held_s", "asked"))
USUAL = (
    "batch", "task", "health", "fingerprint", "reward", "total_tokens", "cost_usd", "created_at",
)  # fmt: skip
NUMBERS = frozenset(
    ("repeat", "attempt", "reward", "reported_reward", "total_tokens", "cost_usd", "held_s")
)
_DOWN_FIRST = NUMBERS | {"created_at", "reported_at"}  # sorted the largest first, texts from A
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
    "reported": get_args(models.ReportedKind),
    "false_zero": ("true",),
    "validity": [name for part in get_args(models.Validity) for name in get_args(part)],
}
WRITTEN = ("batch", "task", "model", "upstream", "role", "fingerprint", "cause", "rule")
_FILTERS = frozenset((*WRITTEN, *CHOICES))
TIMES = ("since", "until", "failed_since", "failed_until")
FILES: Mapping[str, Format] = {each.ending: each for each in FORMATS.values()}
# Of one cell, where not one of the same name.
_FILED: Mapping[str, Sequence[str]] = {"reward": ("reward", "reported_reward"), "asked": ()}
_OWN = ("columns", "by", "file")

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutsView:
    """The view of a list of rollouts that a page shows, and the addresses that lead on from it.

    ``columns`` are names of `COLUMNS`, ``usual`` those that are shown unless others are chosen;
    ``by`` is one of `GROUPS`, or empty; ``kept`` is what every address of the page begins with.
    """

    form: ListForm
    columns: Sequence[str]
    usual: Sequence[str]
    by: str
    kept: Sequence[tuple[str, str]]

    @property
    def items(self) -> list[tuple[str, str]]:
        """The names and values of the page's address, without the cursor."""
        chosen = [] if self.columns == self.usual else [("columns", name) for name in self.columns]
        return [*self.form.query_items, *chosen, *([("by", self.by)] if self.by else [])]

    def query(self, **changes: str | None) -> str:
        """Return the query of the page with other values; None takes a name away."""
        unchanged = [each for each in self.items if each[0] not in changes]
        changed = [(name, value) for name, value in changes.items() if value is not None]
        asked = [each for each in (*unchanged, *changed) if each not in _ASSUMED]
        return short_query([*self.kept, *asked])

    def sorted_by(self, name: str) -> str:
        """Return the query that sorts by a column, or turns its order."""
        now = self.form.parameters
        order = "desc" if name in _DOWN_FIRST else "asc"
        if now.sort == name:
            order = "asc" if now.order == "desc" else "desc"
        return self.query(sort=name, order=order)

    def direction(self, name: str) -> str | None:
        """Return ``ascending`` or ``descending`` if the list is sorted by a column, else None."""
        if self.form.parameters.sort != name:
            return None
        return "descending" if self.form.parameters.order == "desc" else "ascending"

    def narrowed(self, value: str | None) -> str | None:
        """Return the query of one group's rollouts; None if no filter selects them."""
        if value is None and self.by != "batch":
            return None
        return self.query(**{self.by: NO_BATCH if value is None else value, "by": None})

    @property
    def chips(self) -> list[tuple[str, str, str]]:
        """The filters: their names, their values, and the query of the page without each."""
        return [
            (*chip, short_query([*self.kept, *(each for each in self.items if each != chip)]))
            for chip in self.form.query_items
            if chip[0] not in ("sort", "order")
        ]

    def without(self, *names: str) -> list[tuple[str, str]]:
        """Return the address's names and values but for some: what a form about those keeps."""
        return parse_qsl(self.query(**dict.fromkeys(names)))

    @property
    def cleared(self) -> str:
        """The query of the page without any filter."""
        return self.query(**{name: None for name, _, _ in self.chips})

    def values(self, name: str) -> list[str]:
        """Return all values of a filter, as the address has them."""
        return [value for key, value in self.form.query_items if key == name]


@router.get("/ui/rollouts")
async def _explore(context: Context, request: Request) -> Response:
    items = request.query_params.multi_items()
    view = read_view(items)
    if ending := last(items, "file"):
        return await rollouts_file(context.service, [view], ending)
    if (shorter := shorter_query(view, items)) is not None:
        return redirect(f"/ui/rollouts?{shorter}" if shorter else "/ui/rollouts")
    parameters = view.form.parameters
    groups = rollouts = following = None
    if view.by:
        groups = await rollout_groups(context.service, parameters, view.by, limit=GROUPED + 1)
    else:
        rollouts, following = await judged_rollouts(
            context.service, parameters, asked="asked" in view.columns
        )
    totals = None
    if rollouts and form_filters(view):
        totals = totals_words(await view_totals(context.service, parameters))
    return await context.page(
        "explore.html",
        request,
        "rollouts",
        view=view,
        form=view.form,
        rollouts=rollouts,
        totals=totals,
        following=following,
        groups=groups if groups is None else groups[:GROUPED],
        more_groups=groups is not None and len(groups) > GROUPED,
        by_names=GROUPS,
        written=WRITTEN,
        **table_values(),
        address=context.address(request),
        live="",
    )


def form_filters(view: RolloutsView) -> bool:
    """Return True if the view leaves rollouts out: only then its rollouts are added up."""
    return bool(view.chips)


def totals_words(totals: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the totals of a view, with their words for its head and its foot."""
    rollouts, scoreable, more = (totals[name] for name in ("rollouts", "scoreable", "more"))
    count = f"more than {plural(rollouts - 1, 'rollout')}" if more else plural(rollouts, "rollout")
    said = {0: "none is scoreable", rollouts: "all scoreable"}.get(
        scoreable, f"{scoreable:,} scoreable"
    )
    return {
        **totals,
        "words": f"{count} in this view",
        "beside": "" if more else f" · {said}",
    }


def table_values() -> dict[str, Any]:
    """Return the values of the templates of every table of rollouts."""
    return {
        "labels": COLUMNS, "numbers": NUMBERS, "unsorted": UNSORTED, "choices": CHOICES,
        "times": TIMES, "files": list(FILES),
    }  # fmt: skip


def read_view(items: Sequence[tuple[str, str]], *, batch: str | None = None) -> RolloutsView:
    """Read the view that an address names.

    Arguments:
        batch: of the page of one batch, whose rollouts are a tab of it.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    items = typed(items, _FILTERS)
    kept = () if batch is None else (("tab", "rollouts"),)
    own = {*_OWN, *(name for name, _ in kept)}
    form = read_form([each for each in items if each[0] not in own], batch=batch)
    named = parted(items, ("columns",))
    chosen = dict.fromkeys(value for name, value in named if name == "columns" and value)
    by = last(items, "by")
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise Refusal(422, "invalid", f"columns: {unknown[0]!r} is none of {', '.join(COLUMNS)}")
    if by and by not in GROUPS:
        raise Refusal(422, "invalid", f"by: {by!r} is none of {', '.join(GROUPS)}")
    alone = batch is not None or len(form.parameters.batch) == 1
    usual = tuple(name for name in USUAL if name != "batch") if alone else USUAL
    return RolloutsView(form=form, columns=tuple(chosen) or usual, usual=usual, by=by, kept=kept)


def shorter_query(view: RolloutsView, items: Sequence[tuple[str, str]]) -> str | None:
    """Return the short query of a view whose address a form made; None if none made it.

    A form names each of its fields, also the empty ones, and each ticked box by itself.
    """
    names = [name for name, _ in items]
    plain = typed(items, _FILTERS) == [*items]
    if plain and all(value for _, value in items) and names.count("columns") < 2:
        return None
    return view.query(after=view.form.parameters.after)


async def rollouts_file(service: Service, views: Sequence[RolloutsView], ending: str) -> Response:
    """Answer with all rows of one list after another as a file, in the columns of the first.

    The cell of a reward shows what was reported, too: in a file that is a column of its own.

    Raises:
        Refusal: 422 if no format's files end so.
    """
    named = file_format(ending)
    lists = [all_rollouts(service, view.form.parameters) for view in views]
    columns = [part for name in views[0].columns for part in _FILED.get(name, (name,))]
    return await file_response("rollouts", named, _chained(lists), ("id", *dict.fromkeys(columns)))


async def _chained(lists: Sequence[AsyncIterator[Rows]]) -> AsyncIterator[Rows]:
    for parts in lists:
        async for part in parts:
            yield part


def file_format(ending: str) -> Format:
    """Return the format of files that end so.

    Raises:
        Refusal: 422 if there is none.
    """
    if ending not in FILES:
        raise Refusal(422, "invalid", f"file: one of {', '.join(FILES)}")
    return FILES[ending]


def last(items: Sequence[tuple[str, str]], name: str) -> str:
    """Return the last value of a name in an address; empty without one."""
    return next((value for key, value in reversed(items) if key == name), "")


# --- page of search ----------------------------------------------------------------------------
# Jumps to a batch, a task, a rollout, a cause or help; the palette shows its list.


_STATUS = NavigationItem("status", "/ui/upstreams", "Status")


@router.get("/ui/find")
async def _find(context: Context, request: Request, q: Text = "") -> Response:
    text = q.strip()
    read_form([("text", text)])  # refuses what no list takes
    matches = await search(context.service, text)
    own = manual()
    helped = await run_in_thread(own.find, text) if own and text else []
    links = [*context.links, _STATUS, *(own.links if own else ())]
    found = jumps(text, matches, helped, links)
    return await context.page("find.html", request, "find", q=q, jumps=found, live="")


def jumps(
    text: str,
    matches: Sequence[SearchMatch],
    helped: Sequence[Jump] = (),
    links: Sequence[NavigationItem] = (),
) -> list[Jump]:
    """Return the links for a text: its matches, pages by name, help, and the search itself.

    `search_rank` says in which order.
    """
    pages = [
        Jump("page", each.label, each.path) for each in links if text.lower() in each.label.lower()
    ]
    search = Jump(
        "search", f"all rollouts with “{text}”", "/ui/rollouts?" + urlencode({"text": text})
    )
    found = [*map(_jump, matches), *pages, *helped, *([search] if text else [])]
    return sorted(found, key=lambda each: search_rank(each.kind, each.label, text))


def _jump(match: SearchMatch) -> Jump:
    if match.kind == "cause":
        path = "/ui/rollouts?" + urlencode({"fingerprint": match.name})
        return Jump(match.kind, match.name, path)
    if match.kind == "task" and match.place is not None:
        query = urlencode({"tab": "tasks", "text": match.name})
        path = f"{path_of('batches', match.place)}?{query}"
        return Jump(match.kind, match.name, path, match.place)
    folder = "batches" if match.kind == "batch" else "rollouts"
    return Jump(match.kind, match.name, path_of(folder, match.name))

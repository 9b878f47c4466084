"""The pages that find rollouts: lists with filters, columns, groups and files; search by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import ValidationError

from proxy.api.lists import FORMATS, Format, file_of
from proxy.api.problems import invalid
from proxy.control.dashboard import judged_rollouts
from proxy.control.listing import SearchMatch, rollout_groups, search
from proxy.control.queries import path_of, run_in_thread
from proxy.routing.errors import Refusal
from proxy.web import manual
from proxy.web.context import Context, Text, page_router
from truezero import models
from truezero.models.batches import NO_BATCH

# --- form of a list ----------------------------------------------------------------------------
# Read from a page's address, with the addresses of the pages that follow.


_RENAMED = {"q": "text"}  # as pages of the first release had it
_DROPPED = ("page",)  # likewise: pages had numbers
_SHOWN = ("text", "health", "subcategory", "validity", "fingerprint")  # as fields of the form


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
    def hidden(self) -> list[tuple[str, str]]:
        """The parameters that the form keeps without a field of its own for them."""
        return [(name, value) for name, value in self.query_items if name not in _SHOWN]

    @property
    def query(self) -> str:
        """The query of the first page; empty if the list has all rollouts."""
        return urlencode(self.query_items)

    def following(self, cursor: str) -> str:
        """Return the query of the page after a cursor."""
        return urlencode([*self.query_items, ("after", cursor)])


def read_form(items: Sequence[tuple[str, str]], *, batch: str | None = None) -> ListForm:
    """Read the query of a page that shows a list, the newest first. Empty fields are left out.

    Arguments:
        batch: of the page that the list is on, in place of a ``batch`` of the query.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    dropped = _DROPPED if batch is None else (*_DROPPED, "batch")
    items = [(_RENAMED.get(name, name), value) for name, value in items if value]
    items = [(name, value) for name, value in items if name not in dropped]
    several: dict[str, list[str]] = {}
    for name, value in items:
        several.setdefault(name, []).append(value)
    chosen = {"order": "desc", **{name: _as_field(name, all_) for name, all_ in several.items()}}
    if batch is not None:
        chosen["batch"] = [batch]
    try:
        parameters = models.ListParameters.model_validate(chosen)
    except ValidationError as error:
        raise invalid(
            [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        ) from None
    return ListForm(
        parameters=parameters, query_items=[each for each in items if each[0] != "after"]
    )


def _as_field(name: str, values: Sequence[str]) -> Sequence[str] | str:
    field = models.ListParameters.model_fields.get(name)
    return values[-1] if field is not None and field.default_factory is None else values


# --- page of lists -----------------------------------------------------------------------------


GROUPED = 200  # groups on the page

# Columns by name: label, and what the list can be sorted by.
COLUMNS: Mapping[str, str] = {
    "batch": "Batch", "task": "Task", "repeat": "Repeat", "attempt": "Attempt", "model": "Model",
    "upstream": "Upstream", "health": "Verdict", "subcategory": "Subcategory",
    "fingerprint": "Fingerprint", "cause": "Cause", "scoreable": "Scoreable", "reward": "Reward",
    "reported_reward": "Reported reward",
    "total_tokens": "Tokens", "cost_usd": "Cost", "created_at": "Started",
    "reported_at": "Reported", "registered": "Registered", "provisional": "Provisional",
    "validity": "Found",
}  # fmt: skip
USUAL = (
    "batch", "task", "health", "fingerprint", "reward", "total_tokens", "cost_usd", "created_at",
)  # fmt: skip
NUMBERS = frozenset(("repeat", "attempt", "reward", "reported_reward", "total_tokens", "cost_usd"))
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
FILES: Mapping[str, Format] = {each.ending: each for each in FORMATS.values()}
_OWN = ("columns", "by", "file")

router = page_router()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreView:
    """The view of a list that the page shows, and the addresses that lead on from it.

    ``columns`` are names of `COLUMNS`; ``by`` is one of `GROUPS`, or empty.
    """

    form: ListForm
    columns: Sequence[str]
    by: str

    def query(self, **changes: str | None) -> str:
        """Return the query of the page with other values; None takes a name away."""
        own = [] if tuple(self.columns) == USUAL else [("columns", name) for name in self.columns]
        own += [("by", self.by)] if self.by else []
        unchanged = [each for each in (*self.form.query_items, *own) if each[0] not in changes]
        changed = [(name, value) for name, value in changes.items() if value is not None]
        return urlencode([*unchanged, *changed])

    def sorted_by(self, name: str) -> str | None:
        """Return the query that sorts by a column or turns its order; None if none sorts by it."""
        if name not in _SORTS:
            return None
        down = self.form.parameters.sort == name and self.form.parameters.order == "desc"
        return self.query(sort=name, order="asc" if down else "desc")

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
        items = [("columns", name) for name in self.columns if tuple(self.columns) != USUAL]
        items += [*self.form.query_items, *([("by", self.by)] if self.by else [])]
        return [
            (name, value, urlencode([each for each in items if each != (name, value)]))
            for name, value in self.form.query_items
            if name not in ("sort", "order")
        ]

    def values(self, name: str) -> list[str]:
        """Return all values of a filter."""
        values: list[Any] = getattr(self.form.parameters, name)
        return list(map(str, values))


@router.get("/ui/rollouts")
async def _explore(context: Context, request: Request) -> Response:
    items = request.query_params.multi_items()
    view = read_view(items)
    if ending := _last(items, "file"):
        columns = ("id", *view.columns)
        return await file_of(
            context.service, view.form.parameters, file_format(ending), columns=columns
        )
    parameters = view.form.parameters
    groups = rollouts = following = None
    if view.by:
        groups = await rollout_groups(context.service, parameters, view.by, limit=GROUPED + 1)
    else:
        rollouts, following = await judged_rollouts(context.service, parameters)
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
        files=list(FILES),
        address=context.address(request),
        live="",
    )


def read_view(items: Sequence[tuple[str, str]]) -> ExploreView:
    """Read the view that an address names.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    form = read_form([each for each in items if each[0] not in _OWN])
    chosen = dict.fromkeys(value for name, value in items if name == "columns" and value)
    by = _last(items, "by")
    if unknown := [name for name in chosen if name not in COLUMNS]:
        raise Refusal(422, "invalid", f"columns: {unknown[0]!r} is none of {', '.join(COLUMNS)}")
    if by and by not in GROUPS:
        raise Refusal(422, "invalid", f"by: {by!r} is none of {', '.join(GROUPS)}")
    return ExploreView(form=form, columns=tuple(chosen) or USUAL, by=by)


def file_format(ending: str) -> Format:
    """Return the format of files that end so.

    Raises:
        Refusal: 422 if there is none.
    """
    if ending not in FILES:
        raise Refusal(422, "invalid", f"file: one of {', '.join(FILES)}")
    return FILES[ending]


def _last(items: Sequence[tuple[str, str]], name: str) -> str:
    return next((value for key, value in reversed(items) if key == name), "")


# --- page of search ----------------------------------------------------------------------------
# Jumps to a batch, a task, a rollout, a cause or help; the palette shows its list.


_HELP = 8  # pages and sections of help
_AROUND = 60  # characters that are shown before and after what was looked for
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*|#]|:?-{3,}:?")  # links keep their words

_PAGES = (("Batches", "/"), ("Rollouts", "/ui/rollouts"), ("Causes", "/ui/causes"),
          ("Upstreams", "/ui/upstreams"), ("REST API", "/docs"), ("Help", "/help"))  # fmt: skip


class Jump(NamedTuple):
    """A link, the kind of page that it leads to, what that belongs to, and a line of its text."""

    kind: str
    label: str
    path: str
    place: str | None = None
    line: str | None = None


@router.get("/ui/find")
async def _find(context: Context, request: Request, q: Text = "") -> Response:
    text = q.strip()
    read_form([("text", text)])  # refuses what no list takes
    matches = await search(context.service, text)
    sections = await run_in_thread(manual.sections_with, manual.folder(), text) if text else []
    return await context.page(
        "find.html", request, "find", q=q, jumps=jumps(text, matches, sections), live=""
    )


def jumps(
    text: str, matches: Sequence[SearchMatch], sections: Sequence[manual.HelpSection] = ()
) -> list[Jump]:
    """Return the links for a text: its matches, pages by name, help, and the search itself."""
    pages = [Jump("page", name, path) for name, path in _PAGES if text.lower() in name.lower()]
    search = Jump(
        "search", f"all rollouts with “{text}”", "/ui/rollouts?" + urlencode({"text": text})
    )
    named = _help(text)
    written = [_section(text, each) for each in sections[: max(0, _HELP - len(named))]]
    return [*map(_jump, matches), *pages, *named, *written, *([search] if text else [])]


def _help(text: str) -> list[Jump]:
    """Return the help pages whose title and section hold all words of a text."""
    words = text.casefold().split()
    return [
        Jump("help", label, f"/ui/help/{file}", section)
        for section, entries in manual.CONTENTS
        for label, file in entries
        if words and all(word in f"{label} {section}".casefold() for word in words)
    ]


def _section(text: str, section: manual.HelpSection) -> Jump:
    """Return the link to a section of help, with the line that holds a text or its first word."""
    plain = " ".join(_MARKUP.sub(lambda match: match[1] or " ", section.text).split())
    folded, (first, *_) = plain.casefold(), text.casefold().split()
    at = max(0, folded.find(text.casefold()) if text.casefold() in folded else folded.find(first))
    begin, end = max(0, at - _AROUND), at + len(text) + _AROUND
    line = plain[begin:end]
    line = f"… {line.partition(' ')[2]}" if begin else line
    line = f"{line.rpartition(' ')[0]} …" if end < len(plain) else line
    name = section.heading or section.page
    return Jump("help", name, section.address, section.page if name != section.page else None, line)


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

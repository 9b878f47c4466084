"""The tab of a batch's page that lists what to run again, and its table as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import Response

from proxy.api.lists import file_response, in_one
from proxy.control import dashboard
from proxy.control.batches import by_name
from proxy.control.queries import Service, run_in_thread
from proxy.features.reruns import listing
from proxy.web import list_pages
from proxy.web.batch_tabs import Items, OpenTab, rerun_command
from proxy.web.tables import QuickFilter, TableView, read_table
from truezero import models

_COPIED = 500  # ids that a page holds to be copied; of more it has the command
_KINDS: Mapping[models.RerunName, tuple[str, str]] = {
    "transient": ("Run again now", "Such failures of the provider pass by themselves."),
    "fix_first": ("Fix first", "Each would fail again until its cause is fixed."),
    "skipped": ("Skipped", "An open breaker did not admit them."),
    "undecided": ("Undecided", "Evidence is missing, so nobody can say whether they count."),
    "unmeasured": ("Not measured", "The provider did not fail, and there is no score."),
}


_COLUMNS = {
    "repeat": "Repeat", "kind": "Again", "cause": "Cause", "fix": "First", "wait": "Wait",
}  # fmt: skip
_FILE: Mapping[str, Sequence[str]] = {
    "task": ("task", "rollout_id"), "repeat": ("repeat",), "kind": ("kind",), "cause": ("cause",),
    "fix": ("fix",), "wait": ("after_s",),
}  # fmt: skip


def _view(items: Items) -> TableView:
    return read_table(
        items,
        kept=("tab",),
        filters=("show", "text"),
        columns=("task", *_COLUMNS),
        usual_sort="kind",
        down=(),
    )


def shorter(items: Items, _: str) -> str | None:
    """Return the short query of a view whose address a form made."""
    return _view(items).shorter(items)


async def file(service: Service, items: Items, batch: str, ending: str) -> Response:
    """Answer with the repeats of a view as a file."""
    view, file_format = _view(items), list_pages.file_format(ending)
    rows = await run_in_thread(_rows, await listing.rerun(service, batch), view)
    return await file_response("again", file_format, in_one(rows), view.file_columns(_FILE, "task"))


async def read(tab: OpenTab) -> dict[str, Any]:
    """Return what to run again: a row for each repeat, and a command for each kind."""
    batch, view = tab.batch, _view(tab.items)
    reruns = await listing.rerun(tab.context.service, batch)
    rows = await run_in_thread(_rows, reruns, view)
    begin = (tab.number - 1) * dashboard.TASKS
    kinds = [
        (name, *words, reruns[name], _ids(reruns[name]), rerun_command(tab.request, batch, name))
        for name, words in _KINDS.items()
        if reruns[name]["count"]
    ]
    total = sum(kind["count"] for _, _, _, kind, _, _ in kinds)
    chosen = next(iter(view.values("show")), "")
    return {
        "kinds": kinds,
        "running": reruns["running"],
        "total": total,
        "copied": _COPIED,
        "words": {name: label for name, (label, _) in _KINDS.items()},
        "page": dashboard.NumberedPage(
            items=rows[begin : begin + dashboard.TASKS],
            number=tab.number,
            size=dashboard.TASKS,
            total=len(rows),
        ),
        "view": view,
        "labels": _COLUMNS,
        "short_query": list_pages.short_query,
        "files": list(list_pages.FILES),
        "quick": [
            QuickFilter("All", total, view.query(show=None), not chosen),
            *(
                QuickFilter(label, kind["count"], view.query(show=name), name == chosen)
                for name, label, _, kind, _, _ in kinds
            ),
        ],
    }


def _rows(reruns: Mapping[str, Any], view: TableView) -> Sequence[dict[str, Any]]:
    """Return a row for each repeat of a view, in its order."""
    shown, text = view.values("show"), " ".join(view.values("text")).casefold()
    rows = [
        {**item, "kind": name, "cause": group["cause"], "fix": group["fix"]}
        for name in _KINDS
        if not shown or name in shown
        for group in reruns[name]["groups"]
        for item in group["items"]
    ]
    if text:
        names = ("task", "rollout_id", "cause")
        rows = [each for each in rows if any(text in (each[n] or "").casefold() for n in names)]
    places = {name: place for place, name in enumerate(_KINDS)}
    of: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
        "task": lambda each: by_name(each["task"] or each["rollout_id"]),
        "kind": lambda each: places[each["kind"]],
        "wait": lambda each: each["after_s"],
    }
    return view.ordered(rows, of.get(view.sort, lambda each: each[view.sort]))


def _ids(kind: Mapping[str, Any]) -> list[str]:
    names = (item["rollout_id"] for group in kind["groups"] for item in group["items"])
    return [name for name in names if name is not None]

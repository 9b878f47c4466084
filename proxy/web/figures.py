"""Figures of a batch as pages show them: written by their unit, each with the list behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from classifier.figures import FIGURES, FigureUnit
from proxy.web import format

_WRITTEN: Mapping[FigureUnit, Callable[[float | None], str]] = {
    FigureUnit.REPEATS: format.number, FigureUnit.ROLLOUTS: format.number,
    FigureUnit.CALLS: format.number, FigureUnit.TOKENS: format.short,
    FigureUnit.DOLLARS: format.dollars, FigureUnit.SECONDS: format.seconds,
    FigureUnit.SCORE: format.score, FigureUnit.REWARD: format.reward,
    FigureUnit.SHARE: format.percent,
}  # fmt: skip


class ShownFigure(NamedTuple):
    """A figure on a page: its full name, its text, and the query of its list if it has one."""

    name: str
    text: str
    query: str | None


def shown(summary: Mapping[str, Any], name: str, part: str | int | None = None) -> ShownFigure:
    """Write a figure of a batch's summary.

    Arguments:
        summary: as of `GET /batches/{batch}`.
        name: of one of `FIGURES`.
        part: of a figure that is an object or a list, which of its values.
    """
    figure = FIGURES[name]
    value: Any = summary
    for step in name.split("."):
        value = value[step]
    if part is not None:
        value = value[part]
    query = figure.query(part if isinstance(part, str) else None) if value else None
    return ShownFigure(
        name=name if part is None else f"{name}.{part}",
        text=_WRITTEN[figure.unit](value),
        query=None if query is None else urlencode([("tab", "rollouts"), *query], safe=",:/@"),
    )

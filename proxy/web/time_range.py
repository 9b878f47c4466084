"""The time that a page is about: its last seconds, or a range that was chosen in a chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from pydantic import BeforeValidator

from proxy.web import format
from truezero.models.lists import Moment

# A field left empty asks for nothing.
Bound = Annotated[Moment | None, BeforeValidator(lambda given: given or None), Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From ``since`` to ``until`` in epoch seconds; ``until`` is None where it goes on.

    ``window`` is of its seconds, None where the range was chosen.
    """

    since: float
    until: float | None
    window: int | None

    @property
    def words(self) -> str:
        """Name it as ``the last 7 d``, or by its ends."""
        if self.window is not None:
            return f"the last {format.seconds(self.window)}"
        ends = "now" if self.until is None else format.moment(self.until)
        return f"{format.moment(self.since).removesuffix(' UTC')} to {ends}"

    @property
    def query(self) -> str:
        """The query of a page about it."""
        if self.window is not None:
            return urlencode({"window": self.window})
        return urlencode(self.named("since", "until"))

    def named(self, since: str, until: str) -> dict[str, str]:
        """Return its ends as parameters of these names, as forms and lists take them."""
        ends = {since: self.since, until: self.until}
        return {name: format.local(at) for name, at in ends.items() if at is not None}


def read(now: float, window: int, since: float | None, until: float | None) -> TimeRange:
    """Read what an address asks for; a range that has a begin wins over a window."""
    if since is None:
        return TimeRange(since=now - window, until=None, window=window)
    return TimeRange(since=since, until=until, window=None)

"""A list of rollouts as a page's address asks for it, and the addresses that lead on from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from pydantic import ValidationError

from proxy.api.problems import invalid
from truezero import models

_RENAMED = {"q": "text"}  # as pages of the first release had it
_DROPPED = ("page",)  # likewise: pages had numbers
_SHOWN = ("text", "health", "subcategory", "validity", "fingerprint")  # as fields of the form


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """What was asked, for the form above a list and the links below it.

    ``given`` are the address's names and values, without the cursor.
    """

    asked: models.ListParameters
    given: Sequence[tuple[str, str]]

    def value(self, name: str) -> str:
        """Return the value of a field of the form; empty where any will do."""
        return next((value for key, value in self.given if key == name), "")

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """What the form's own fields do not show, and that it keeps."""
        return [(name, value) for name, value in self.given if name not in _SHOWN]

    @property
    def query(self) -> str:
        """The query of the first page; empty where all is shown."""
        return urlencode(self.given)

    def following(self, cursor: str) -> str:
        """Return the query of the page after a cursor."""
        return urlencode([*self.given, ("after", cursor)])


def read_form(items: Sequence[tuple[str, str]], *, batch: str | None = None) -> ListForm:
    """Read the query of a page that shows a list, the newest first; fields left empty ask nothing.

    Arguments:
        batch: of the page that the list is on; then no other can be asked for.

    Raises:
        Refusal: 422, which names the parameter that is unknown or unreadable.
    """
    dropped = _DROPPED if batch is None else (*_DROPPED, "batch")
    given = [(_RENAMED.get(name, name), value) for name, value in items if value]
    given = [(name, value) for name, value in given if name not in dropped]
    several: dict[str, list[str]] = {}
    for name, value in given:
        several.setdefault(name, []).append(value)
    chosen = {"order": "desc", **{name: _as_field(name, all_) for name, all_ in several.items()}}
    if batch is not None:
        chosen["batch"] = [batch]
    try:
        asked = models.ListParameters.model_validate(chosen)
    except ValidationError as error:
        raise invalid(
            [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        ) from None
    kept = [(name, value) for name, value in given if name != "after"]
    return ListForm(asked=asked, given=kept)


def _as_field(name: str, values: Sequence[str]) -> Sequence[str] | str:
    field = models.ListParameters.model_fields.get(name)
    return values[-1] if field is not None and field.default_factory is None else values

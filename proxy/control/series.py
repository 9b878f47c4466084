"""Which batches are the same evaluation, run again: by their names."""

from __future__ import annotations

import re

_SEPARATOR = r"[-_./:@# ]+"
_DATE = r"\d{4}-?[01]\d-?[0-3]\d(?:[T_ -]?[0-2]\d[:.-]?[0-5]\d(?:[:.-]?[0-5]\d)?Z?)?"
_COMMIT = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}"
_COUNTED = r"(?:build|checkpoint|ckpt|epoch|iter|iteration|job|night|nightly|run|seed|step)"
# What distinguishes one run from the next at the end of a name. A number alone does not: it may
# be a model's version.
_LAST = re.compile(
    rf"(?:(?:{_SEPARATOR}|^)(?:{_DATE}|{_COMMIT}|\d{{5,}})|(?<=[a-z])#\d+"
    rf"|((?:^|{_SEPARATOR}){_COUNTED}){_SEPARATOR.replace('+', '*')}\d+)$",
    re.IGNORECASE,
)


def series_of(batch: str) -> str:
    """Return a batch's name without the date, commit or number of its run.

    ``nightly-2026-11-21`` and ``nightly-2026-11-22`` are one series, ``step-7`` and ``step-8``
    another; ``gpt-4`` and ``gpt-5`` are two.
    """
    name, before = batch, ""
    while name != before:
        before, name = name, _LAST.sub(r"\1", name)
    return name

"""Everything that is no known dialect: recorded as it is, understood as little as it is.

It never guesses: usage stays absent, output unknown.
"""

from __future__ import annotations

from proxy.wire.dialect import Dialect, Payload, Reading


def _read(reading: Reading, payload: Payload, event: str | None) -> None:
    """Nothing is understood; an error in the payload is found by the tap."""


def _totals(reading: Reading) -> tuple[int | None, int | None]:
    return reading.input_total, reading.output_total


OPAQUE = Dialect(name="opaque", read=_read, totals=_totals, known=False)

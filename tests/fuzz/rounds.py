"""All that is fuzzed, as rounds of so many examples each.

It keeps no examples of its own: what was found stands in test_found.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.openapi import routes
from tests.fuzz.peers import SIDES
from tests.fuzz.pure import PROPERTIES

Round = Callable[[], None]

_PATIENT: Final = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
}


def dressed(examples: int) -> Callable[[Any], Any]:
    """How a property is tried with so many examples."""
    return settings(max_examples=examples, **_PATIENT)  # type: ignore[arg-type]


def prepared(name: str, examples: int) -> Round:
    """A round of a property without a socket."""
    holds, inputs = PROPERTIES[name]
    made: Round = dressed(examples)(given(**inputs)(holds))
    return made


@contextmanager
def side(name: str, examples: int) -> Iterator[Round]:
    """A round of a property on real sockets."""
    opened, inputs = SIDES[name]
    with opened() as holds:
        yield dressed(examples)(given(**inputs)(holds))


@contextmanager
def described(examples: int, *, shown: bool) -> Iterator[Round]:
    """A round of every route of the OpenAPI, with the admin token or without."""
    with routes(dressed(examples), shown=shown) as rounds:

        def each() -> None:
            for name, one in rounds.items():
                try:
                    one()
                except BaseException as error:
                    error.add_note(f"on {name}")
                    raise

        yield each

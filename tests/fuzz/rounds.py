"""All that is fuzzed, as rounds of so many examples each.

It keeps no examples of its own: what was found stands in test_found.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given

from tests.fuzz.peers import SIDES
from tests.fuzz.pure import Round, dressed


@contextmanager
def side(name: str, examples: int) -> Iterator[Round]:
    """A round of a property on real sockets."""
    opened, inputs = SIDES[name]
    with opened() as holds:
        yield dressed(examples)(given(**inputs)(holds))


@contextmanager
def described(examples: int, *, shown: bool) -> Iterator[Round]:
    """A round of every route of the OpenAPI, with the admin token or without."""
    from tests.fuzz.openapi import routes  # here: what it needs takes a second to load

    with routes(dressed(examples), shown=shown) as rounds:

        def each() -> None:
            for name, one in rounds.items():
                try:
                    one()
                except BaseException as error:
                    error.add_note(f"on {name}")
                    raise

        yield each

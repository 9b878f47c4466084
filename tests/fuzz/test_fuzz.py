"""A little of what ``make fuzz`` does for as long as it is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from tests.fuzz.peers import SIDES
from tests.fuzz.pure import PROPERTIES, prepared
from tests.fuzz.rounds import described, side

EXAMPLES = settings().max_examples  # of the profile: few or many
# The share of the examples that is enough for `make test`.
_DEAR = {"bodies": 16, "observer": 2, "unasked": 2}


def _rounds(names: Iterable[str], examples: int) -> list[Any]:
    few = [pytest.param(n, examples // _DEAR.get(n, 1), id=n) for n in names]
    more = [
        pytest.param(n, examples, id=f"more {n}", marks=pytest.mark.slow)
        for n in names
        if n in _DEAR
    ]
    return few + more


@pytest.mark.parametrize(("name", "examples"), _rounds(PROPERTIES, 2 * EXAMPLES))
def test_it_holds_for_any_bytes(name: str, examples: int) -> None:
    prepared(name, examples)()


@pytest.mark.parametrize(("name", "examples"), _rounds(SIDES, EXAMPLES))
def test_each_side_survives_any_peer(name: str, examples: int) -> None:
    with side(name, examples) as one:
        one()


@pytest.mark.slow
@pytest.mark.parametrize("shown", [True, False], ids=["with the token", "without"])
def test_every_route_answers_as_described_whatever_it_is_asked(shown: bool) -> None:
    with described(EXAMPLES // (4 if shown else 8), shown=shown) as one:
        one()

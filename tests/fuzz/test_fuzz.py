"""A little of what ``make fuzz`` does for as long as it is told."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.fuzz.peers import SIDES
from tests.fuzz.pure import PROPERTIES, prepared
from tests.fuzz.rounds import described, side

EXAMPLES = settings().max_examples  # of the profile: few or many
_DEAR = {"bodies": 8}  # and the share of the examples that is enough for `make test`


@pytest.mark.parametrize("name", PROPERTIES)
def test_it_holds_for_any_bytes(name: str) -> None:
    prepared(name, 2 * EXAMPLES)()


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        *(pytest.param(n, EXAMPLES // _DEAR.get(n, 1), id=n) for n in SIDES),
        *(pytest.param(n, EXAMPLES, id=f"more {n}", marks=pytest.mark.slow) for n in _DEAR),
    ],
)
def test_each_side_survives_any_peer(name: str, examples: int) -> None:
    with side(name, examples) as one:
        one()


@pytest.mark.slow
@pytest.mark.parametrize("shown", [True, False], ids=["with the token", "without"])
def test_every_route_answers_as_described_whatever_it_is_asked(shown: bool) -> None:
    with described(EXAMPLES // (4 if shown else 8), shown=shown) as one:
        one()

"""Each claim holds against a running service; `make attack` prints them.

The attack that deletes the database comes last: nothing works after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack import claims
from tests.attack.__main__ import broken
from tests.attack.all import CLAIMS
from tests.attack.stage import Stage, staged


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("attack")) as staged_service:
        yield staged_service


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.slow else [])
        for each in CLAIMS
    ],
)
def test_the_claim_holds(stage: Stage, claim: claims.Claim) -> None:
    stage.reset()
    claim.attack(stage)


def test_a_broken_claim_is_told(stage: Stage) -> None:
    def succeeds(_: Stage) -> None:
        raise AssertionError("it got in\nassert 1 == 2")

    def fails(_: Stage) -> None:
        pass

    def asked(attack: claims.Attack) -> str | None:
        return broken(stage, claims.Claim(sentence="x", attack=attack, slow=False))

    assert "(it got in)" in (asked(succeeds) or "")
    assert asked(fails) is None

"""Register attacks, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.attack.stage import Stage

Attack: TypeAlias = Callable[[Stage], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an attacker cannot do, and the attack that tries; ``slow``: not in `make test`."""

    sentence: str
    attack: Attack
    slow: bool

    @property
    def name(self) -> str:
        """The function, as SECURITY.md names it."""
        return self.attack.__name__


CLAIMS: list[Claim] = []


def claim(sentence: str, *, slow: bool = False) -> Callable[[Attack], Attack]:
    """Register the decorated attack under its claim."""

    def register(attack: Attack) -> Attack:
        CLAIMS.append(Claim(sentence=sentence, attack=attack, slow=slow))
        return attack

    return register

"""The part of a feature where the service is started, before and around its processes.

`proxy.feature` says what a feature is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from proxy.feature import modules


class StartError(Exception):
    """The service cannot start; one sentence says why.

    ``exit_code`` is 2 for what is set wrongly, as with settings that cannot be read.
    """

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPart:
    """The part of one feature.

    ``check``: checks the settings before anything is started; raises StartError.
    """

    check: Callable[[object], None] | None = None


@cache
def servings() -> list[ServingPart]:
    """Import what features add, in their order."""
    return [module.SERVING for _, module in modules("serving")]


def check(settings: object) -> None:
    """Check the settings as features do.

    Raises:
        StartError: one cannot be served.
    """
    for each in servings():
        if each.check is not None:
            each.check(settings)

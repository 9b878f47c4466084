"""What to check, and the result of one check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Health = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """The result of one check; ``told`` says what was found and how to fix it."""

    name: str
    health: Health
    told: str


def failed(checks: Sequence[DoctorCheck]) -> bool:
    """Return whether any check failed."""
    return any(check.health == "failed" for check in checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to check besides the service.

    ``upstreams``: checked even without a key in the environment, because the service may
    hold one. ``models``: pairs of upstream and model. ``ask``: call each model once.
    """

    upstreams: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()
    ask: bool = False


def wanted(upstreams: Sequence[str], named: Sequence[str], *, ask: bool) -> Wanted:
    """Parse what to check from the command's options.

    Raises:
        ValueError: a model is named without its upstream.
    """
    pairs = [name.partition("/") for name in named]
    for upstream, _, model in pairs:
        if not (upstream and model):
            raise ValueError(f"--model {upstream!r}: use UPSTREAM/MODEL, for example openai/gpt-5")
    models = tuple((upstream, model) for upstream, _, model in pairs)
    return Wanted(upstreams=tuple(upstreams), models=models, ask=ask)

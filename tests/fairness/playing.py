"""Play cells against running services, many at once, and look at what came out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.arena.arena import JUDGED_S, Agent, Arena, arena
from tests.arena.score import Score
from tests.fairness.situations import Cell

CELLS_A_HOUSE = 25  # a service asks 60 references a minute, up to two for a cell
AT_ONCE = 24
SPARES = ("deepseek", "fireworks", "mistral", "cerebras")


def scores(cells: Sequence[Cell], home: Path) -> list[Score]:
    """Play the cells, many at once and each on a lane of its own."""
    with arena(home, houses=-(-len(cells) // CELLS_A_HOUSE), spares=SPARES) as stage:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            played = list(threads.map(lambda cell: _played(stage, cell), cells))
        stage.settle()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            wrong = list(threads.map(_wrong, cells, played))
    return [
        Score(family=cell.situation.name, name=cell.name, wrong=each)
        for cell, each in zip(cells, wrong, strict=True)
    ]


def _played(stage: Arena, cell: Cell) -> Sequence[Agent] | str:
    """The agents of a cell once they have ended; or why it could not be played."""
    try:
        agents = cell.situation.play(stage, cell.failure, cell.dialect)
        with ThreadPoolExecutor(len(agents)) as threads:
            list(threads.map(Agent.end, agents))
    except AssertionError as error:
        return f"could not be played: {error}"
    return agents


def _wrong(cell: Cell, played: Sequence[Agent] | str) -> str | None:
    if isinstance(played, str):
        return played
    expected = cell.situation.expected(cell.failure)
    found = [expected.wrong(agent) for agent in played]
    if any(found) and cell.failure.silent:  # the last reference has only just ended
        deadline = time.monotonic() + JUDGED_S
        while any(found) and time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):
                found = [expected.wrong(agent) for agent in played]
            time.sleep(0.1)
    return next((each for each in found if each is not None), None)

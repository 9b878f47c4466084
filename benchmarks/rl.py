"""What masking is worth: the loop of docs/guides/rl.md on clean, masked and fake rewards.

``python -m benchmarks.rl`` draws docs/guides/rl.svg and prints the table beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree as Xml

DOCS = Path(__file__).parent.parent / "docs" / "guides"
SEEDS = range(8)
RUNS: Mapping[str, Mapping[str, Any]] = {
    "no outages": {"outage": 0.0},
    "outages, masked": {},
    "outages, as zeros": {"masked": False},
}

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 320, 46, 150, 34, 34
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de } path { fill: none; stroke-width: 2 }
.clean { stroke: #57606a; stroke-dasharray: 5 4 }
.masked { stroke: #0969da } .zeros { stroke: #cf222e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b3 } .grid { stroke: #3d444d }
  .clean { stroke: #9da7b3 } .masked { stroke: #4493f8 } .zeros { stroke: #ff7b72 }
}
"""
_CLASSES = dict(zip(RUNS, ("clean", "masked", "zeros"), strict=True))
_EVERY = 10  # steps between two points of a line

Learned = Mapping[str, Sequence[Sequence[float]]]


def shown() -> str:
    """Return the loop that docs/guides/rl.md shows."""
    found = re.search(r"<!-- toy -->\n```python\n(.*?)```", (DOCS / "rl.md").read_text(), re.DOTALL)
    assert found is not None, "docs/guides/rl.md shows no loop"
    return found[1]


def learn() -> Learned:
    """Run the loop for each seed: the share of tasks solved at each step, by run."""
    names: dict[str, Any] = {}
    exec(shown(), names)
    train: Callable[..., list[float]] = names["train"]
    return {name: [train(seed, **said) for seed in SEEDS] for name, said in RUNS.items()}


def table(learned: Learned) -> str:
    """Return the share of tasks solved after the last step, mean and deviation over seeds."""
    rows = ["| training | tasks solved | std over seeds |", "|---|---|---|"]
    for name, lines in learned.items():
        last = [line[-1] for line in lines]
        rows.append(f"| {name} | {fmean(last):.3f} | {stdev(last):.3f} |")
    return "\n".join(rows)


def picture(learned: Learned) -> str:
    """Draw a line for each run, the mean over seeds, as SVG for light and dark."""
    box = f"0 0 {WIDTH} {HEIGHT}"
    root = Xml.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
    Xml.SubElement(root, "title").text = "Tasks solved, by training step: " + ", ".join(learned)
    Xml.SubElement(root, "style").text = _STYLE
    _text(root, 0, 18, "Share of tasks that the policy solves", "title")
    for tenth in (4, 5, 6, 7, 8):
        y = _y(tenth / 10)
        ends = {"x1": f"{LEFT}", "x2": f"{WIDTH - RIGHT}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        Xml.SubElement(root, "line", {"class": "grid", **ends})
        _text(root, LEFT - 8, y + 4, f"{tenth / 10:g}", "small", "end")
    for name, lines in learned.items():
        mean = [fmean(at) for at in zip(*lines, strict=True)]
        points = [(_x(step, len(mean)), _y(mean[step])) for step in _steps(len(mean))]
        drawn = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        Xml.SubElement(root, "path", {"class": _CLASSES[name], "d": drawn})
        above = -6 if name == "no outages" else 12
        _text(root, WIDTH - RIGHT + 8, points[-1][1] + above, name)
    _text(root, LEFT, HEIGHT - 10, "step 0", "small")
    size = len(lines[0])
    _text(root, WIDTH - RIGHT, HEIGHT - 10, f"step {size}, 8 rollouts each", "small", "end")
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode") + "\n"


def _steps(size: int) -> list[int]:
    return [*range(0, size, _EVERY), size - 1]


def _x(step: int, size: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * step / (size - 1)


def _y(share: float) -> float:
    low, high = 0.4, 0.85
    return TOP + (HEIGHT - TOP - BOTTOM) * (high - share) / (high - low)


def _text(
    root: Xml.Element, x: float, y: float, text: str, kind: str = "", anchor: str = "start"
) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    Xml.SubElement(root, "text", {**place, **({"class": kind} if kind else {})}).text = text


if __name__ == "__main__":
    found = learn()
    (DOCS / "rl.svg").write_text(picture(found))
    print(table(found))

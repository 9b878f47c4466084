"""The picture beside the tables: bars on a logarithmic scale, as SVG for light and dark.

It draws what it is given; what was not measured gets no bar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

WIDTH, LEFT, RIGHT = 760, 140, 90
BAR, GAP, TITLE, SCALE, BETWEEN = 22, 8, 34, 24, 18

# Both grounds are transparent; the colours hold 4.5:1 on white and on the dark of code hosts.
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de } .bar { fill: #8c959f } .ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b3 } .grid { stroke: #3d444d }
  .bar { fill: #6e7681 } .ours { fill: #4493f8 }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A group of bars: a title with its unit, and the values by name, all above 0."""

    title: str
    values: Mapping[str, float]

    @property
    def height(self) -> int:
        return TITLE + len(self.values) * (BAR + GAP) + SCALE

    @property
    def decades(self) -> range:
        """The powers of ten that the scale goes through, from below the least to above the most."""
        least, most = min(self.values.values()), max(self.values.values())
        return range(math.floor(math.log10(least)), math.ceil(math.log10(most) + 1e-9) + 1)


def picture(panels: Sequence[Panel], *, ours: str, says: str) -> str:
    """SVG with the panels one below the other; ``says`` is for those who do not see it."""
    drawn = [panel for panel in panels if panel.values]
    height = sum(panel.height + BETWEEN for panel in drawn)
    box = f"0 0 {WIDTH} {height}"
    root = Xml.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")
    Xml.SubElement(root, "title").text = says
    Xml.SubElement(root, "style").text = _STYLE
    top = 0
    for panel in drawn:
        _draw(Xml.SubElement(root, "g", transform=f"translate(0 {top})"), panel, ours)
        top += panel.height + BETWEEN
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode") + "\n"


def _draw(group: Xml.Element, panel: Panel, ours: str) -> None:
    _text(group, 0, 18, panel.title, "title")
    bottom = panel.height - SCALE
    for power in panel.decades:
        x = _x(panel, 10.0**power)
        ends = {"x1": x, "x2": x, "y1": f"{TITLE - 6}", "y2": f"{bottom}"}
        Xml.SubElement(group, "line", {"class": "grid", **ends})
        _text(group, x, bottom + 15, f"{10.0**power:,g}", "small", "middle")
    for place, (name, value) in enumerate(panel.values.items()):
        _bar(group, TITLE + place * (BAR + GAP), panel, name, value, ours)


def _bar(group: Xml.Element, y: int, panel: Panel, name: str, value: float, ours: str) -> None:
    end = _x(panel, value)
    kind = "ours" if name.startswith(ours) else "bar"
    size = {"width": f"{float(end) - LEFT:.1f}", "height": f"{BAR}", "rx": "3"}
    Xml.SubElement(group, "rect", {"class": kind, "x": f"{LEFT}", "y": f"{y}", **size})
    _text(group, LEFT - 10, y + 16, name, "", "end")
    _text(group, float(end) + 8, y + 16, f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")


def _x(panel: Panel, value: float) -> str:
    first, last = panel.decades[0], panel.decades[-1]
    share = (math.log10(value) - first) / (last - first)
    return f"{LEFT + share * (WIDTH - LEFT - RIGHT):.1f}"


def _text(
    group: Xml.Element, x: float | str, y: float, text: str, kind: str = "", anchor: str = "start"
) -> None:
    attributes = {"x": f"{x}", "y": f"{y}", "text-anchor": anchor}
    if kind:
        attributes["class"] = kind
    Xml.SubElement(group, "text", attributes).text = text

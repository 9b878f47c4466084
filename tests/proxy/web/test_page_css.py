"""The colours of pages: each can be told from its ground in both schemes; no rule is left over."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from proxy.web import badges, render
from proxy.web.badges import Badge
from tests.house import ROOT

SHEET = render.STATIC["page.css"].content.decode()
TOKENS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\(#(\w{6}), #(\w{6})\)", SHEET.partition("* { box-sizing")[0]
    )
}
BADGES = {
    badge.name: badge
    for badge in [
        *badges.CLASSES.values(), *badges.LEVELS.values(), badges.NOT_SCORED,
        badges.NEVER_STARTED, badges.RUNNING,
    ]
}  # fmt: skip


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("badge", BADGES.values(), ids=BADGES.keys())
def test_a_badge_can_be_told_from_its_ground(badge: Badge, scheme: int) -> None:
    assert f".m-{badge.name} {{ fill: var(--{badge.name}); }}" in SHEET
    for ground in ("ground", "raised"):
        colour = TOKENS[badge.name][scheme]
        assert contrast(colour, TOKENS[ground][scheme]) >= 3, (colour, ground)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_words_can_be_read_on_their_ground(scheme: int) -> None:
    grounds = ("ground", "raised", "fill", "accent-fill")
    pairs = [(ink, ground) for ink in ("ink", "ink2", "ink3") for ground in grounds]
    pairs += [(name, f"{name}-fill") for name in ("accent", "good", "warn", "bad")]
    for ink, ground in pairs:
        assert contrast(TOKENS[ink][scheme], TOKENS[ground][scheme]) >= 4.5, (ink, ground)


def test_the_font_is_loaded_once_and_kept() -> None:
    font = render.STATIC[render.FONT]
    assert f"url({render.FONT}?v={font.digest})" in SHEET
    assert font.content.startswith(b"wOF2")
    assert font.media_type == "font/woff2"


def test_a_colour_is_named_once_and_each_that_is_used_has_one() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", SHEET))
    assert used <= {*re.findall(r"--([\w-]+):", SHEET)}


def test_no_line_of_rules_stands_twice() -> None:
    lines = Counter(line for line in SHEET.splitlines() if "{" in line and line.endswith("}"))
    assert [line for line, times in lines.items() if times > 1] == []


_ATTRIBUTE = re.compile(r'class="((?:\{\{.*?\}\}|\{%.*?%\}|[^"{])*)"', re.DOTALL)
_JINJA = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_WORD = re.compile(r'"([\w-]+)"')
_QUOTED = re.compile(r'"([^"\n]*)"|`([^`]*)`')


def named_in(file: Path) -> Iterator[str]:
    """Yield what may be a class in a template, a script or a module; ``m-`` if more follows."""
    text = file.read_text("utf-8")
    if file.suffix == ".py":
        yield from _WORD.findall(text)
        return
    inside = [text]
    if file.suffix == ".html":
        inside = _JINJA.findall(text)
        for attribute in _ATTRIBUTE.findall(text):
            yield from re.findall(r"[\w-]+(?=\{\{)", attribute)
            yield from re.findall(r"[\w-]+", attribute)
    for quoted in chain.from_iterable(_QUOTED.findall("\n".join(inside))):
        yield from re.findall(r"[\w-]+", quoted)


def given() -> set[str]:
    """What templates, scripts and modules of pages may name a class."""
    files = chain(*((ROOT / "proxy" / part).rglob("*.*") for part in ("web", "features")))
    named = (named_in(file) for file in files if file.suffix in (".html", ".js", ".py"))
    return set(chain.from_iterable(named))


def left_over(sheet: str, given: set[str]) -> set[str]:
    """The classes of a sheet that nobody gives."""
    rules = re.sub(r'/\*.*?\*/|url\([^)]*\)|"[^"]*"', "", sheet, flags=re.DOTALL)
    heads = re.findall(r"([^{}]+)\{", rules)
    return {
        name
        for head in heads
        for name in re.findall(r"\.([a-zA-Z][\w-]*)", head)
        if name not in given
        and not (name[:2] in given and name[2:] in given)
        and not (name[:1] in given and name[1:].isdigit())
    }


def test_each_class_is_used() -> None:
    named = given()
    assert left_over(SHEET, named) == set()
    more = ".listing .opt2 { display: none; } .m-nowhere { fill: red; }"
    assert left_over(SHEET + more, named) == {"opt2", "m-nowhere"}

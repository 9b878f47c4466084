"""The colours of pages: each can be told from its ground in both schemes."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from proxy.web import badges, render
from proxy.web.badges import Badge

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

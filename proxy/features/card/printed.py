"""A measurement card as one page to print, and as a badge.

The page stands alone, so that it can be saved: its style is inside, and nothing is loaded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Response

from proxy.web import format, render
from truezero.printable import measured_words, sum_words

_SVG = "image/svg+xml"


def card_page(card: Mapping[str, Any], accept: str) -> Response | None:
    """Render a card as a page or a badge, as ``accept`` asks for; None if it asks for JSON."""
    kinds = [part.partition(";")[0].strip() for part in accept.lower().split(",")]
    if "text/html" in kinds:
        return printable(card)
    if _SVG in kinds:
        return Response(badge(card), media_type=_SVG, headers=dict(render.HEADERS))
    return None


def printable(card: Mapping[str, Any]) -> Response:
    """Render a card as a page that prints on one sheet."""
    page = render.page("card/page.html", card=card, style=_style(), **_sentences(card))
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
    page.headers["content-security-policy"] = policy
    page.headers["vary"] = "accept"
    return page


@cache
def _style() -> str:
    return (files("proxy.features.card") / "templates" / "page.css").read_text("utf-8")


def _sentences(card: Mapping[str, Any]) -> dict[str, Any]:
    measured = card["measured"]
    score, calls = measured["score"], measured["calls"]["total"]
    low, high = score["interval"] or (None, None)
    tokens, cost = measured["tokens"], measured["cost"]
    summed, spent = tokens["total_tokens"], cost["cost_usd"]
    return {
        "head": format.score(score["score"]),
        "interval": None if low is None else f"{low:.3f} to {high:.3f}",
        "measured_line": measured_line(card),
        "tokens": sum_words(
            None if summed is None else format.number(summed), calls,
            tokens["total_tokens_unknown"], "did not say",
        ),
        "cost": sum_words(
            None if spent is None else format.dollars(spent), calls,
            cost["cost_usd_unknown"], "without a known price",
        ),
    }  # fmt: skip


def measured_line(card: Mapping[str, Any]) -> str:
    """Return how many of a card's repeats were measured: ``41 of 60 measured (68.3%)``."""
    score = card["measured"]["score"]
    return measured_words(score["measured"], score["repeats"], score["own_failures"])


# --- badge ---------------------------------------------------------------------------------------


_HEIGHT, _LETTER, _PAD = 20, 6.6, 8  # pixels; of 11 px Verdana, which is wider than most
_GOOD, _DOUBTFUL = "#00634a", "#a33800"


def badge(card: Mapping[str, Any]) -> str:
    """Return a badge as SVG: ``truezero | 0.634, 41 of 60 measured (68.3%)``."""
    score = card["measured"]["score"]["score"]
    text = f"{'no score' if score is None else f'{score:.3f}'}, {measured_line(card)}"
    left = round(len("truezero") * _LETTER + 2 * _PAD)
    width = left + round(len(text) * _LETTER + 2 * _PAD)
    colour = _GOOD if card["measured"]["valid"] else _DOUBTFUL
    middle = left + (width - left) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" role="img"'
        f' aria-label="truezero: {text}"><title>truezero: {text}</title>'
        f'<rect width="{width}" height="{_HEIGHT}" rx="3" fill="{colour}"/>'
        f'<path d="M0 3a3 3 0 0 1 3-3H{left}V{_HEIGHT}H3a3 3 0 0 1-3-3z" fill="#3a3f46"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif"'
        f' font-size="11"><text x="{left / 2:g}" y="14">truezero</text>'
        f'<text x="{middle:g}" y="14">{text}</text></g></svg>\n'
    )

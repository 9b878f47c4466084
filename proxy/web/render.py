"""Rendering of templates, with headers that keep a page to its own origin.

Nothing from another origin is loaded, and no page contains inline script or style, so that text
which looks like markup stays text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import Response
from fastapi.responses import HTMLResponse

from proxy.control.queries import path_of
from proxy.feature import features
from proxy.web import badges, charts, figures, format
from proxy.web.manual_links import manual
from truezero.printable import (
    exclusion_words,
    not_measurements,
    parts_words,
    plural,
    reference_words,
)

if TYPE_CHECKING:
    from jinja2 import Environment

# `blob:` images are those that a script of ours makes: a chart on its way to a PNG.
_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob:",
        "font-src 'self'", "connect-src 'self'", "form-action 'self'", "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)  # fmt: skip

# Not `no-referrer`: with it browsers send `Origin: null` with our own forms (Fetch standard,
# "append a request Origin header"), and a form's origin could not be checked.
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

_TYPES = {
    "css": "text/css; charset=utf-8", "js": "text/javascript", "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8", "woff2": "font/woff2",
}  # fmt: skip
_CACHED = {
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Static:
    """A file that pages load; ``digest`` is part of its URL, so that it can be cached."""

    content: bytes
    media_type: str
    digest: str


FONT = "inter.woff2"

# Words of the product in heads of tables, and their rows in the glossary.
_TERMS = {
    "Batch": "batch", "Batches": "batch", "Rollout": "rollout", "Repeat": "repeat",
    "Repeats": "repeat", "Repeats and attempts": "repeat", "Attempt": "attempt",
    "Upstream": "upstream", "Upstream, model": "upstream", "Verdict": "verdict",
    "Why": "fingerprint", "Cause": "cause", "Fingerprint": "fingerprint",
    "Subcategory": "subcategory", "Scoreable": "scoreable", "Reward": "reward",
    "Reported reward": "outcome", "Reported": "reported", "Provisional": "provisional",
    "Found": "validity",
    "Health": "health", "Score": "score", "Measured": "measured", "Role": "role",
    "Coverage": "coverage", "Least – most": "least – most", "Least – score – most": "least – most",
    "pass@k": "pass@k", "Validity": "validity", "Error rate": "error rate",
    "First byte": "first byte", "Key": "lane", "Evidence": "evidence",
    "Breaker open or half-open": "breaker", "Zeros": "zeros",
    "Whose failure": "corroborated", "Run again": "transient",
    "Lost to failures": "lost to failures", "Waiting at the proxy": "waiting at the proxy",
}  # fmt: skip


def _read_static() -> dict[str, Static]:
    contents = {each.name: each.read_bytes() for each in (files("proxy.web") / "static").iterdir()}
    # The sheet names the font by the address that pages preload, or it would be loaded twice.
    font = contents[FONT]
    loaded = f"{FONT}?v={_digest(font)}".encode()
    contents["page.css"] = contents["page.css"].replace(FONT.encode(), loaded)
    return {
        name: Static(content, _TYPES[name.rpartition(".")[2]], _digest(content))
        for name, content in contents.items()
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


STATIC = _read_static()


def static(name: str) -> Response | None:
    """Return a static file; None if there is none of that name."""
    file = STATIC.get(name)
    if file is None:
        return None
    return Response(file.content, media_type=file.media_type, headers=_CACHED)


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template as a page."""
    return HTMLResponse(_templates().get_template(template).render(values), status, dict(HEADERS))


def _asset(name: str) -> str:
    return f"/ui/static/{name}?v={STATIC[name].digest}"


@cache
def _templates() -> Environment:
    # A twentieth of startup, and many services never render a page.
    from jinja2 import (  # noqa: PLC0415
        ChoiceLoader,
        Environment,
        FileSystemLoader,
        PackageLoader,
        PrefixLoader,
        StrictUndefined,
    )

    of_features = {
        name: FileSystemLoader(str(files(f"proxy.features.{name}") / "templates"))
        for name, feature in features().items()
        if feature.plane
    }

    environment = Environment(
        loader=ChoiceLoader([PackageLoader("proxy.web"), PrefixLoader(of_features)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # or each use asks the disk whether the file has changed
    )
    filters = (
        format.number, format.short, format.percent, format.score, format.reward, format.dollars,
        format.seconds, format.shell, format.ago, format.moment, format.iso, format.local,
        format.clock, format.zeros,
    )  # fmt: skip
    environment.filters.update({each.__name__: each for each in filters})
    environment.globals.update(
        anchor_of=format.anchor_of,
        asset=_asset,
        bar=charts.bar,
        score_bar_of=charts.score_bar,
        counted=badges.counted,
        badges=badges,
        path_of=path_of,
        exclusion_words=exclusion_words,
        manual=manual(),
        not_measurements=not_measurements,
        parts_words=parts_words,
        plural=plural,
        reference_words=reference_words,
        rules=format.RULES,
        shown=figures.shown,
        terms=_TERMS,
        warnings=format.WARNINGS,
    )
    return environment

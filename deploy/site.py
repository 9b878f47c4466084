"""A hook of MkDocs: leave out of the built site what no page loads, and keep it small.

``mkdocs.yml`` names it; `make site` builds into ``proxy/web/site``, a part of wheels and the image.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

LIMIT_BYTES = 2 * 1024 * 1024
# Source maps; tokenizers of other languages; what needs the site's public address.
_UNUSED = ("**/*.map", "assets/javascripts/lunr", "sitemap.xml", "sitemap.xml.gz", "404.html")
_PICTURES = (".png", ".svg")
_PREFORMATTED = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
_PLAIN = re.compile(r'<span class="[pw]?">([^<]*)</span>')  # punctuation and blanks
_BLOCK = re.compile(
    r"(</?(?:div|form|header|label|li|main|nav|ol|t[dhr]|tbody|thead|ul)\b[^>]*>)\n"
)
_RIGHT = ('<td style="text-align: right;">', "<td class=n>")  # numbers; docs/site.css
_NAMELESS = ('"md-search" data-md', '"md-search" aria-label="Search" data-md')  # Material's dialog
_NAMED = re.compile(r'(?:src|href)="([^"#]+)"')


class SiteTooLargeError(Exception):
    """The site is larger than a wheel should carry."""


def on_post_build(config: Mapping[str, Any]) -> None:
    """Trim the site that was built.

    Raises:
        SiteTooLargeError: it has more than ``LIMIT_BYTES``.
    """
    site = Path(config["site_dir"])
    license_assets(site, "mkdocs-material")
    trim(site)


def license_assets(site: Path, theme: str) -> None:
    """Write the license of the theme beside its scripts and styles, which wheels carry."""
    texts = [each.read_text() for each in metadata.files(theme) or () if "LICENSE" in each.name]
    assets = site / "assets"
    assets.mkdir(exist_ok=True)
    (assets / "LICENSE.txt").write_text("\n".join(texts), "utf-8")


def trim(site: Path) -> None:
    """Delete unused files under ``site``; raise SiteTooLargeError where much is left."""
    for pattern in _UNUSED:
        for each in list(site.glob(pattern)):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    shown = _shown(site)
    for each in list(site.rglob("*")):
        if each.suffix in _PICTURES and each.resolve() not in shown:
            each.unlink()
    for page in site.rglob("*.html"):
        page.write_text(_dense(page.read_text("utf-8")), "utf-8")
    for index in site.glob("search/search_index.json"):
        index.write_text(_words(index.read_text("utf-8")), "utf-8")
    for figures in site.glob("measurements/*.json"):
        figures.write_text(_compact(json.loads(figures.read_text("utf-8"))), "utf-8")
    size = sum(each.stat().st_size for each in site.rglob("*") if each.is_file())
    if size > LIMIT_BYTES:
        raise SiteTooLargeError(f"{site} has {size:,} bytes, more than {LIMIT_BYTES:,}")


def _dense(page: str) -> str:
    """Return a page without its template's indentation, long styles and marks without colour."""
    parts = _PREFORMATTED.split(page.replace(*_NAMELESS).replace(*_RIGHT))
    return "".join(
        _PLAIN.sub(r"\1", part)
        if part.startswith("<pre")
        else _BLOCK.sub(r"\1", re.sub(r"\n\s+", "\n", part))
        for part in parts
    )


def _words(index: str) -> str:
    """Return the index of the search without marks, and without snippets of code."""
    found = json.loads(index)
    for each in found["docs"]:
        text = re.sub(r"<[^>]+>", " ", _PREFORMATTED.sub(" ", each["text"]))
        each["text"] = " ".join(text.split())
    return _compact(found)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(site: Path) -> set[Path]:
    pages = list(site.rglob("*.html"))
    return {
        (page.parent / name).resolve()
        for page in pages
        for name in _NAMED.findall(page.read_text("utf-8"))
    }

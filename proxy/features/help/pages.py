"""The documentation at `/help`: the pages of ``docs/``, rendered in the dashboard's own template.

A checkout has them beside the packages, and wheels and the image inside this one. Pages are under
`/ui/help/`, so that calls to an operator's upstream named `help` never get here, and at the paths
of their files, so that relative links lead to the same pages as on disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from fastapi import APIRouter, Request, Response

from proxy.control.queries import run_in_thread
from proxy.features.help.manual import CONTENTS, START, address, folder, llms_text, sections_with
from proxy.routing.errors import Refusal
from proxy.web import render
from proxy.web.context import Context, Name, PageRoute, Text, redirect
from proxy.web.format import anchor_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_PAGES = frozenset(file for _, entries in CONTENTS for _, file in entries)
_TYPES: Mapping[str, str] = {
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_CACHED = "private, max-age=300"


def manual_router() -> APIRouter:
    """Make the routes of the documentation's pages."""
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    place = folder()

    @routes.get("/help")
    async def start() -> Response:
        return redirect(address(START))

    @routes.get("/help/llms.txt")  # unless an operator's upstream is named help
    @routes.get("/ui/help/llms.txt")
    async def for_models() -> Response:
        text = await run_in_thread(llms_text, place)
        return Response(text, media_type="text/markdown; charset=utf-8", headers=render.HEADERS)

    @routes.get("/docs")
    async def rest() -> Response:
        return redirect(address("reference/rest.md"))

    @routes.get("/ui/help/search")
    async def search(context: Context, request: Request, q: Text = "") -> Response:
        found = await run_in_thread(sections_with, place, q) if q.strip() else []
        return await context.page(
            "help/search.html", request, "help", contents=CONTENTS, file="", q=q, found=found,
            back=_way_back(request), live="",
        )  # fmt: skip

    @routes.get("/ui/help/{name:path}")
    async def file(context: Context, request: Request, name: Name) -> Response:
        name = name or START
        path = (await run_in_thread(_files, place)).get(name)
        if path is None:
            raise Refusal(404, "not_found", "no such page")
        if name not in _PAGES:
            headers = {**render.HEADERS, "cache-control": _CACHED}
            content = await run_in_thread(path.read_bytes)
            return Response(content, media_type=_TYPES[path.suffix], headers=headers)
        page = await run_in_thread(_page, path)
        return await context.page(
            "help/page.html", request, "help", contents=CONTENTS, file=name, page=page,
            back=_way_back(request), live="",
        )  # fmt: skip

    return routes


def _way_back(request: Request) -> str | None:
    """Return the path of the page of the dashboard that led here, None from elsewhere."""
    before = urlsplit(request.headers.get("referer", ""))
    ours = before.netloc == request.headers.get("host")
    if not ours or not (before.path == "/" or before.path.startswith("/ui/")):
        return None
    if before.path.startswith(("/ui/help/", "/ui/sign-in")):
        return None
    return urlunsplit(("", "", before.path, before.query, ""))


@cache
def _files(docs: Path) -> Mapping[str, Path]:
    """Return all files by name. A requested name is looked up, and never joined to a folder."""
    files = (each for each in docs.rglob("*") if each.is_file())
    named = ((each.relative_to(docs).as_posix(), each) for each in files)
    return {name: each for name, each in named if name in _PAGES or each.suffix in _TYPES}


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpPage:
    """A page of the documentation; ``headings`` are its sections' texts by their anchors."""

    title: str
    html: str
    headings: Mapping[str, str]


# --- rendering -----------------------------------------------------------------------------------


@cache
def _page(path: Path) -> HelpPage:
    return rendered(path.read_text("utf-8"))


def rendered(text: str) -> HelpPage:
    """Render a page of Markdown. HTML in it is shown as text, and comments are left out."""
    parser = _parser()
    tokens = parser.parse(text)
    headings = _anchor(tokens)
    for token in tokens:
        if token.type in ("th_open", "td_open"):  # styles inside a page are not let through
            aligned = token.attrs.pop("style", None)
            token.attrs |= {"class": "n"} if aligned == "text-align:right" else {}
    _anchor_terms(tokens)
    titles = [words for level, _, words in headings if level == "h1"]
    return HelpPage(
        title=titles[0] if titles else "Help",
        html=parser.renderer.render(tokens, parser.options, {}),
        headings={anchor: words for level, anchor, words in headings if level == "h2"},
    )


def _anchor(tokens: Sequence[Token]) -> list[tuple[str, str, str]]:
    """Give headings their anchors; return the level, anchor and words of each."""
    headings: list[tuple[str, str, str]] = []
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(_words(inline))
            slug = anchor_of(words)
            used = sum(slug == anchor_of(other) for _, _, other in headings)
            anchor = f"{slug}_{used}" if used else slug
            token.attrs["id"] = anchor
            headings.append((token.tag, anchor, words.strip()))
    return headings


def _anchor_terms(tokens: Sequence[Token]) -> None:
    """Give the rows of a table of terms their anchors."""
    row, of_terms, cells = None, False, 0
    for token, inline in pairwise(tokens):
        if token.type == "table_open":
            of_terms, row = False, None
        elif token.type == "tr_open":
            row, cells = token, 0
        elif token.type in ("th_open", "td_open") and row is not None:
            cells += 1
            if cells == 1:
                words = "".join(_words(inline)).strip()
                of_terms = of_terms or (token.type == "th_open" and words == "term")
                if of_terms and token.type == "td_open":
                    row.attrs["id"] = anchor_of(words)


def _words(inline: Token) -> Iterator[str]:
    for each in inline.children or ():
        if each.type in ("text", "code_inline"):
            yield each.content


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  many services never show a page of these

    parser = MarkdownIt("commonmark").enable("table")
    for name, rule in (
        ("fence", _fence),
        ("html_block", _html),
        ("html_inline", _html),
        ("table_open", _table_open),
        ("table_close", _table_close),
    ):
        parser.add_render_rule(name, rule)
    return parser


def _fence(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    language = escape(tokens[at].info.split(" ")[0])
    code = f'<code class="language-{language}">{escape(tokens[at].content)}</code>'
    shown = f'<pre tabindex="0">{code}</pre>\n'
    if language == "mermaid":  # drawing it takes a script of megabytes
        return f'<p class="note">A diagram, as its source in Mermaid:</p>\n{shown}'
    return shown


def _html(_renderer: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    content = tokens[at].content
    return "" if re.fullmatch(r"\s*<!--.*?-->\s*", content, re.DOTALL) else escape(content)


def _table_open(*_: Any) -> str:
    return '<div class="scroll" tabindex="0"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"

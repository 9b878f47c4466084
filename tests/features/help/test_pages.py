"""The documentation at `/help`: rendered from its files, whole, and nothing beside it."""
# ruff: noqa: SLF001
# Private: pages as they lie in memory, and their sections.

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.routing import APIRoute

import proxy
from proxy.features.help import manual, pages
from proxy.routing.upstreams import SHARED
from proxy.web import list_pages
from proxy.web.format import anchor_of
from tests.proxy.api.test_routes import Service
from tests.proxy.conftest import Services
from tests.proxy.web.test_compression import (
    test_a_page_is_the_same_in_fewer_bytes as same_in_fewer_bytes,
)
from tests.proxy.web.test_pages import BROWSER, DEAD, PAGES, TOKEN, guarded, page, play, sign_in

__all__ = ["guarded"]

START = "/ui/help/index.md"


@pytest.fixture
def service(services: Services) -> Service:
    return services()


def test_help_is_there_from_a_checkout_and_leads_to_its_first_page(service: Service) -> None:
    assert service.http.get("/help").headers["location"] == START
    for path in (START, "/ui/help/"):
        page = service.http.get(path)
        assert page.status_code == 200
        assert (
            '<header class="top">' in page.text
            and "<title>truezero · Help · truezero</title>" in page.text
        )
        assert '<a href="/ui/help/index.md" aria-current="page">Start</a>' in page.text
        assert "data-live" not in page.text, "nothing of it changes"
        assert "style-src 'self';" in page.headers["content-security-policy"]


def test_llms_txt_lists_every_page_in_the_form_that_models_read(service: Service) -> None:
    answer = service.http.get("/help/llms.txt")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    title, quote, *sections = answer.text.rstrip("\n").split("\n\n")
    assert title == "# truezero" and re.fullmatch(r"> \w.+", quote)  # https://llmstxt.org
    heads, lists = sections[::2], sections[1::2]
    assert all(re.fullmatch(r"## [\w ]+", head) for head in heads)
    entries = [
        re.fullmatch(r"- \[([^\]]+)\]\(([^)\s]+)\)(: \S.*)?", line)
        for items in lists
        for line in items.splitlines()
    ]
    found = [(entry[1], entry[2]) for entry in entries if entry]
    index = [(label, manual.address(file)) for _, of in manual.CONTENTS for label, file in of]
    assert found == index and len(entries) == len(index)
    assert sum(bool(entry and entry[3]) for entry in entries) > len(index) - 5, "most say a word"
    assert service.http.get(found[0][1]).status_code == 200
    assert service.http.get("/ui/help/llms.txt").text == answer.text


def test_an_upstream_named_help_keeps_its_paths(services: Services) -> None:
    service = services(UPSTREAM_HELP=services().provider.url)
    service.provider.plays(DEAD)
    assert service.http.get("/help/llms.txt").status_code != 200
    assert "# truezero" in service.http.get("/ui/help/llms.txt").text


def test_llms_txt_is_for_those_who_may_read_help(guarded: Service) -> None:
    assert "# truezero" not in guarded.http.get("/help/llms.txt").text
    guarded.http.headers["authorization"] = f"Bearer {TOKEN}"
    assert guarded.http.get("/help/llms.txt").status_code == 200


@pytest.mark.slow
def test_every_page_is_shown_and_every_link_picture_and_anchor_leads_somewhere(
    service: Service,
) -> None:
    shown: dict[str, str] = {}
    wanted, named = [START], set()
    while wanted:
        path = wanted.pop()
        answer = service.http.get(path)
        assert answer.status_code == 200, path
        shown[path] = answer.text if answer.headers["content-type"].startswith("text/html") else ""
        for link in re.findall(r'(?:href|src)="([^"]+)"', shown[path].partition("<main")[2]):
            target, _, anchor = urljoin(path, unescape(link)).partition("#")
            if target.startswith("/ui/help/"):
                named.add((path, target, anchor))
                wanted += [target] if target not in shown and target not in wanted else []
    read = {path.removeprefix("/ui/help/") for path, text in shown.items() if text}
    assert read == pages._PAGES
    assert {path.rpartition(".")[2] for path in shown} == {"md", "png", "svg", "json"}
    dead = [each for each in named if each[2] and f'id="{each[2]}"' not in shown[each[1]]]
    assert dead == []
    assert len(named) > 100


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a <script>alert(1)</script> b", "a &lt;script&gt;alert(1)&lt;/script&gt; b"),
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y&gt;"),
        ("[a](javascript:alert)", "[a](javascript:alert)"),
        ("before\n\n<!-- made by a command -->\n\nafter", "<p>before</p>\n<p>after</p>"),
        ("`<b>` [c](../x.md#y)", '<code>&lt;b&gt;</code> <a href="../x.md#y">c</a>'),
        ("```sh\na < b\n```", '<pre tabindex="0"><code class="language-sh">a &lt; b\n</code>'),
        ("```\"><x\n1\n```", '<code class="language-&quot;&gt;&lt;x">'),
        ("```mermaid\na\n```", 'Mermaid:</p>\n<pre tabindex="0"><code class="language-mermaid">a'),
        ("![A <b>](a.png)", '<img src="a.png" alt="A &lt;b&gt;" />'),
        ("|a|b|\n|-|-:|\n|1|2|", '<td>1</td>\n<td class="n">2</td>'),
    ],
)  # fmt: skip
def test_markdown_becomes_html_and_html_in_it_text(text: str, html: str) -> None:
    assert html in pages.rendered(text).html
    assert "style=" not in pages.rendered(text).html


def test_headings_have_anchors_of_their_own() -> None:
    page = pages.rendered(
        "# The `x` page\n\n## Some: words, é\n\n## Twice\n\n### Deep\n\n## Twice\n"
    )
    assert page.title == "The x page"
    assert [*page.headings] == ["some-words-e", "twice", "twice_1"]
    assert page.headings["some-words-e"] == "Some: words, é"
    assert '<h3 id="deep">Deep</h3>' in page.html


@pytest.mark.parametrize(
    "path",
    [
        "nowhere.md", "guides", "guides/", "development/architecture.md", "../README.md",
        "README.md", "..%2fREADME.md", "guides/../../README.md", "%2e%2e/README.md", "/etc/passwd",
    ],
)  # fmt: skip
def test_only_files_of_the_documentation_are_served(service: Service, path: str) -> None:
    answer = service.http.get(f"/ui/help/{path}")
    assert answer.status_code == 404
    assert '<a href="/">Back to batches</a>' in answer.text or "README" in path


def test_a_package_shows_what_it_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `docs` folder beside an installed package is somebody else's."""
    package = tmp_path / "site-packages" / "proxy" / "features" / "help"
    (package / "docs").mkdir(parents=True)
    (tmp_path / "site-packages" / "docs").mkdir()
    monkeypatch.setattr(manual, "__file__", str(package / "manual.py"))
    assert manual.folder() == package / "docs"


def every_page(service: Service) -> list[str]:
    """The pages of the kernel, and those of features that every page's head leads to."""
    head = service.http.get("/", headers=BROWSER).text.partition("</nav>")[0]
    return [*dict.fromkeys((*PAGES, *re.findall(r'<li><a href="([^"]+)"', head)))]


def asked_about(service: Service, *paths: str) -> set[str]:
    """The rows of the glossary to which question marks of some pages lead."""
    glossary = service.http.get("/ui/help/concepts/glossary.md").text
    asked = set()
    for path in paths:
        html = service.http.get(path, headers=BROWSER).text
        for address, anchor in re.findall(r'class="(?:ask|word)" href="([^"#]*)#([^"]*)"', html):
            assert address == "/ui/help/concepts/glossary.md"
            assert f'<tr id="{anchor}">' in glossary, (path, anchor)
            asked.add(anchor)
    return asked


def test_each_question_mark_leads_to_its_row_of_the_glossary(service: Service) -> None:
    play(service, "won", reward=1.0, task="t")
    play(service, "dead", DEAD, task="u")
    asked = asked_about(
        service,
        *every_page(service),
        "/ui/batches/b?tab=breakers",
        "/ui/batches/b?tab=again",
        f"/ui/rollouts?columns={','.join(list_pages.COLUMNS)}",
    )
    assert {"score", "coverage", "least-most", "verdict", "lane", "breaker", "cause"} <= asked


@pytest.mark.slow
def test_each_header_that_is_a_word_of_the_glossary_has_a_question_mark(service: Service) -> None:
    play(service, "won", reward=1.0, task="t", repeat=0)
    play(service, "dead", DEAD, task="u")
    every = ",".join(list_pages.COLUMNS)
    headed = headed_words(
        service, *every_page(service), f"/ui/rollouts?columns={every}",
        "/ui/rollouts?by=fingerprint", "/status",
        "/ui/batches/b?tab=tasks", "/ui/batches/b?tab=cost",
    )  # fmt: skip
    assert {"rollout", "verdict", "why", "reward", "score", "measured"} <= headed


ALIASES = {"why": "fingerprint", "found": "validity", "upstream-model": "upstream"}


def headed_words(service: Service, *paths: str) -> set[str]:
    """The words of the glossary in heads of tables: each leads there from below its table."""
    glossary = service.http.get("/ui/help/concepts/glossary.md").text
    words = {*re.findall(r'<tr id="([^"]+)">', glossary), *ALIASES}
    headed = set()
    for path in paths:
        html = service.http.get(path, headers=BROWSER).text
        for head in re.findall(r'<th [^>]*scope="col"[^>]*>(.*?)</th>', html, re.DOTALL):
            label = anchor_of(re.sub("<[^>]+>", "", head))
            if label in words:
                assert ALIASES.get(label, label) in asked_about(service, path), (path, label)
                headed.add(label)
    return headed


def test_each_link_of_a_template_to_help_leads_to_its_section(service: Service) -> None:
    templates = Path(proxy.__file__).parent.rglob("templates/*.html")
    texts = "".join(each.read_text() for each in templates)
    files = re.findall(r'(?:p\.read|manual\.address)\("([^"]+)"', texts)
    links = {*map(manual.address, files), *re.findall(r'href="(/(?:ui/)?help[^"{]*)"', texts)}
    assert len(links) > 4
    for link in links:
        target, _, anchor = link.partition("#")
        answer = service.http.get(target, follow_redirects=True)
        assert answer.status_code == 200, link
        assert not anchor or f'id="{anchor}"' in answer.text, link


def test_help_leads_back_to_the_page_that_asked(service: Service) -> None:
    here = str(service.http.base_url).rstrip("/")
    term = "/ui/help/concepts/glossary.md"

    def shown(referer: str) -> str:
        return service.http.get(term, headers={**BROWSER, "referer": referer}).text

    assert 'href="/ui/batches/b?tab=again&amp;x=1">Back' in shown(
        f"{here}/ui/batches/b?tab=again&x=1"
    )
    for elsewhere in (f"{here}/ui/help/index.md", "https://example.com/ui/batches/b", f"{here}//x"):
        assert ">Back to" not in shown(elsewhere)


def test_a_section_or_a_term_is_found_by_its_words(service: Service) -> None:
    def found(text: str) -> list[str]:
        html = service.http.get("/ui/help/search", params={"q": text}, headers=BROWSER).text
        return re.findall(r'<li><a href="(/ui/help/[^"]+#[^"]*)">', html)

    assert found("half-open")[0] == "/ui/help/concepts/glossary.md#half-open"
    assert "/ui/help/reference/rest.md#get-compare" in found("GET /compare")
    assert found("no section has zyzzyva") == []
    assert found(" ") == []


def test_each_section_that_is_searched_has_its_anchor() -> None:
    docs = manual.folder()
    for each in manual._sections(docs):
        file, _, anchor = each.address.removeprefix("/ui/help/").partition("#")
        assert f'id="{anchor}"' in pages._page(docs / file).html, each.address


def test_the_documentation_of_rest_is_a_page_of_help(service: Service) -> None:
    answer = service.http.get("/docs")
    assert (answer.status_code, answer.headers["location"]) == (
        303, "/ui/help/reference/rest.md",
    )  # fmt: skip
    text = service.http.get(answer.headers["location"]).text
    assert service.app is not None
    paths = [
        route.path_format
        for route in service.app.control_plane().app.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]
    assert len(paths) > 30
    assert [path for path in paths if path not in text] == []


def test_every_page_leads_there_from_its_foot(service: Service) -> None:
    for path in ("/", "/ui/rollouts"):
        foot = service.http.get(path, headers=BROWSER).text.partition("<footer>")[2]
        assert '<a href="/help">Help</a> · <a href="/docs">REST API</a>' in foot
    for path in ("/docs", "/help"):
        assert service.http.get(path, follow_redirects=True).status_code == 200
    assert "help" in SHARED, "an upstream of that name goes on being reached"


def test_signing_in_opens_it(guarded: Service) -> None:
    sign_in(guarded)
    assert guarded.http.get("/ui/help/index.md", headers=BROWSER).status_code == 200


def test_a_long_page_is_the_same_in_fewer_bytes(service: Service) -> None:
    same_in_fewer_bytes(service, "/ui/help/reference/rest.md")


# --- what the page behind the palette finds -------------------------------------------------------


def test_a_help_page_says_what_it_belongs_to(service: Service) -> None:
    shown = page(service, "/ui/find", q="batches concepts")
    assert 'href="/ui/help/concepts/batches.md"' in shown
    assert '<a href="/help">' in page(service, "/ui/find", q="help")
    assert '<a href="/docs">' in page(service, "/ui/find", q="rest api")


def test_a_text_inside_a_help_page_is_found_with_its_section_and_its_page(
    service: Service,
) -> None:
    html = page(service, "/ui/find", q="rollouts for which it is unknown come last")
    first = re.search(r'<a href="/ui/help/[^"]+">.*?<span class="under">([^<]+)', html, re.DOTALL)
    assert first is not None
    assert "rollouts for which it is unknown come last" in first[1], "as it is written"
    html = page(service, "/ui/find", q="SIGHUP calls finish")
    hits = re.findall(
        r'<a href="(/ui/help/[^"#]+#[^"]+)"><span class="tag">help</span> ([^<]+)'
        r'<span class="quiet">([^<]+)</span><span class="under">([^<]+)</span>', html
    )  # fmt: skip
    assert hits
    for path, name, place, line in hits:
        target, _, anchor = unescape(path).partition("#")
        shown = page(service, target)
        assert f'id="{anchor}"' in shown, path
        assert name.strip() and place.strip()
        assert "sighup" in line.casefold() or "sighup" in name.casefold(), line
    assert 'class="under"' not in page(service, "/ui/find", q="zyxwv")

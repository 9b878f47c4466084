"""The dashboard in a real browser: each page, live, by keyboard, in the dark, behind a token."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
)

from proxy.app import Application
from proxy.server.serve import sign_in_link
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes import answers, seed
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider
from tests.fakes.relaying import running
from tests.journeys import browser as chrome

pytestmark = pytest.mark.slow  # chromium takes 35 s of CPU

AXE = (Path(__file__).parent.parent / "vendor" / "axe.min.js").read_text("utf-8")
TOKEN = "t0ken-of-the-operator"
WRONG = "Wrong admin token, or a link that was used or has expired."
WINDOW: ViewportSize = {"width": 1280, "height": 900}
SCHEMES: Sequence[Literal["light", "dark"]] = ("light", "dark")
WIDTHS = (1920, 1440, 1024, 390)  # of windows, in pixels
PATIENCE_MS = 60_000

BATCH = "/ui/batches/terminal-bench-sonnet"
# Links inside a sentence that nothing but their colour tells from it.
PLAIN_LINKS = """
() => [...document.querySelectorAll("main :is(p, li, dd) a")].filter((link) => {
  const words = [...link.parentElement.childNodes].filter((node) => node.nodeType === 3);
  const beside = words.map((node) => node.data.trim()).join(" ").length > 12;
  const look = getComputedStyle(link);
  return beside && link.checkVisibility() && look.display === "inline"
    && !look.textDecorationLine.includes("underline");
}).map((link) => link.outerHTML.slice(0, 160))
"""
PAGES = {
    "batches": "/",
    "batch": BATCH,
    "batch with a timeline": "/ui/batches/swe-verified-gpt-5",
    "batch under way": "/ui/batches/tau-bench-live",
    "rollouts of a batch": f"{BATCH}?tab=rollouts",
    "columns of tasks": "/ui/batches/swe-verified-gpt-5?tab=tasks&columns=score&text=a",
    "tasks with retries": "/ui/batches/swe-verified-gpt-5?tab=tasks",
    "cost": "/ui/batches/swe-verified-gpt-5?tab=cost",
    "breakers": f"{BATCH}?tab=breakers",
    "what to run again": f"{BATCH}?tab=again",
    "two batches": "/ui/compare?a=gaia-nightly-1&b=gaia-nightly",
    "rollouts": "/ui/rollouts",
    "rollout that was cut off": "/ui/rollouts/terminal-bench-sonnet%2Ftb-020.0",
    "rollout under way": "/ui/rollouts/tau-bench-live%2Fretail-12.0",
    "causes": "/ui/causes",
    "groups": "/ui/rollouts?by=fingerprint",
    "upstreams": "/ui/upstreams?window=86400",
    "row of upstreams": "/ui/upstreams?lane=openai+%C2%B7+gpt-5-mini+%C2%B7+key-7bdad8b5",
    "card": f"{BATCH}/card",
    "status for everybody": "/status?public=1",
    "find": "/ui/find?q=auth",
    "help": "/ui/help/guides/integrations.md",
    "search of help": "/ui/help/search?q=breaker",
    "nothing": "/ui/nowhere",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chrome.chromium() is None:
        if chrome.in_ci():
            pytest.fail(chrome.MISSING)
        pytest.skip(chrome.MISSING)
    with chrome.launched() as launched:
        yield launched


@dataclass
class Shown:
    """A service whose database was seeded, as an agent, a runner and a reader find it."""

    url: str
    provider: Provider

    def calls(self, rollout: str, answer: object = None, *, key: str | None = None) -> None:
        """An agent's call; one that the provider fails where an answer is given."""
        self.provider.plays(answer or answers.chat())  # type: ignore[arg-type]
        asked = {"model": "gpt-5-mini", "messages": []}
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        url = f"{self.url}/r/{rollout}/openai/v1/chat/completions"
        httpx.post(url, json=asked, headers=headers)

    def fails(self, codes: Mapping[str, str], *, batch: str) -> None:
        """Rollouts of a batch, each of which ended in an error of its own code."""
        with httpx.Client(base_url=self.url, timeout=60) as agent:
            for rollout, code in codes.items():
                agent.post("/rollouts", json={"id": rollout, "batch": batch, "model": "gpt-5-mini"})
                self.provider.plays(answers.whole({"error": {"message": "no", "code": code}}, 500))
                asked = {"model": "gpt-5-mini", "messages": []}
                agent.post(f"/r/{quote(rollout, safe='')}/openai/v1/chat/completions", json=asked)
                outcome = {"status": "success", "rewards": {"reward": 0.0}}
                at = f"/rollouts/{quote(rollout, safe='')}/outcome"
                agent.post(at, json=outcome).raise_for_status()

    def registers(self, **facts: Any) -> None:
        httpx.post(f"{self.url}/rollouts", json=facts).raise_for_status()


def serving(folder: Path, *, seeded: bool = True, **settings: str) -> Iterator[Shown]:
    database = Database(str(folder / "t.db"))
    database.prepare()
    if seeded:
        with ThreadPoolExecutor() as beside:  # the browser's loop runs in this thread
            beside.submit(asyncio.run, seed.fill(database, now=time.time(), scale=1)).result()
        database.heartbeat("seed", host="elsewhere", now=time.time() + 3600)
    database.close()
    with Provider(answers.healthy) as provider:
        environment = {
            "TRUEZERO_DATABASE_URL": str(folder / "t.db"),
            "TRUEZERO_UPSTREAM_OPENAI": provider.url,
            **{f"TRUEZERO_{name}": value for name, value in settings.items()},
        }
        with running(Application(load({}, environment), environment)) as port:
            yield Shown(f"http://127.0.0.1:{port}", provider)


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    yield from serving(tmp_path_factory.mktemp("pages"))


@dataclass
class Reader:
    """A tab, and all that went wrong in it."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def watch(self) -> Reader:
        self.page.on("console", self._told)
        self.page.on("pageerror", self._failed)
        self.page.on("request", self._asked)
        return self

    def look_away(self) -> None:
        """Let somebody else read in the tab."""
        self.page.remove_listener("console", self._told)
        self.page.remove_listener("pageerror", self._failed)
        self.page.remove_listener("request", self._asked)

    def _told(self, told: ConsoleMessage) -> None:
        if told.type in ("error", "warning"):
            self.complaints.append(told.text)

    def _failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _asked(self, request: Request) -> None:
        if not request.url.removeprefix("blob:").startswith(self.url + "/"):
            self.complaints.append(f"asked {request.url}")

    def opens(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page


Opener = Callable[..., Reader]
expect.set_options(timeout=PATIENCE_MS)


def profile(browser: Browser, **look: Any) -> BrowserContext:
    context = browser.new_context(**{"viewport": WINDOW, "reduced_motion": "reduce", **look})
    context.set_default_timeout(PATIENCE_MS)
    return context


@pytest.fixture(scope="module")
def usual(browser: Browser) -> Iterator[BrowserContext]:
    """The profile of most tabs: a new one has processes and a cache of its own."""
    with profile(browser) as context:
        yield context


@pytest.fixture(scope="module")
def tab(usual: BrowserContext) -> Iterator[Page]:
    """The tab that most tests read in: a new one is a process that compiles its scripts anew."""
    with usual.new_page() as page:
        yield page


@pytest.fixture
def reader(browser: Browser, usual: BrowserContext, tab: Page) -> Iterator[Opener]:
    """Opens tabs, the shared one first; whatever they complained of fails the test at its end."""
    readers: list[Reader] = []

    with ExitStack() as ends:

        def opened(url: str, *, copies: bool = False, **look: Any) -> Reader:
            if copies:
                usual.grant_permissions(["clipboard-read", "clipboard-write"])
            context = ends.enter_context(profile(browser, **look)) if look else usual
            used = bool(look) or any(made.page is tab for made in readers)
            page = ends.enter_context(context.new_page()) if used else tab
            readers.append(Reader(page, url).watch())
            ends.callback(readers[-1].look_away)
            return readers[-1]

        yield opened
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size(WINDOW)
        usual.clear_permissions()
    left = usual.cookies()
    usual.clear_cookies()
    assert left == []
    assert [complaint for made in readers for complaint in made.complaints] == []


def serious(page: Page) -> list[str]:
    """What axe finds to be serious or critical, by all its rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    asked = {"resultTypes": ["violations"], "preload": False}
    found = page.evaluate("asked => axe.run(document, asked)", asked)
    return [
        f"{broken['id']}: {node['html'][:160]}"
        for broken in found["violations"]
        if broken["impact"] in ("serious", "critical")
        for node in broken["nodes"]
    ]


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_page_is_whole_and_readable_by_all(shown: Shown, reader: Opener, path: str) -> None:
    tab = reader(shown.url)
    page = tab.opens(path)
    if path == PAGES["nothing"]:
        tab.complaints.clear()  # the browser reports the 404 itself
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("h1")).to_be_visible()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", background)[0])
        assert (red < 64) == (scheme == "dark" and path != PAGES["card"]), "a card is paper"
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            drawn = page.evaluate("document.documentElement.scrollWidth")
            assert drawn == width, f"{scheme}, {width}: it fits its window"
            assert serious(page) == [], f"{scheme}, {width}"
            assert page.evaluate(PLAIN_LINKS) == [], f"{scheme}, {width}: links told by colour"
        page.set_viewport_size(WINDOW)


# --- one table, one scale: nothing leaves its box -------------------------------------------------

ODD = "n" * 200  # the longest name there may be
CAUSES = 200
LISTS = {
    "batches": "/",
    "rollouts": "/ui/rollouts",
    "rollouts of a view": "/ui/rollouts?health=api_error",
    "rollouts of one batch": "/ui/batches/odd?tab=rollouts",
    "tasks": "/ui/batches/odd?tab=tasks",
    "tasks of one name": f"/ui/batches/{ODD}?tab=tasks",
    "cost": "/ui/batches/odd?tab=cost",
    "what to run again": "/ui/batches/odd?tab=again",
    "overview": f"/ui/batches/{ODD}",
    "overview of many causes": "/ui/batches/causes",
    "two batches": f"/ui/compare?a=odd&b={ODD}",
    "causes": "/ui/causes",
    "upstreams": "/ui/upstreams?window=86400",
    "rollout": f"/ui/rollouts/{ODD[:190]}-1",
}
BOXES = """
() => [...document.querySelectorAll("table.listing")].map((table) => {
  const box = table.closest(".scroll"), edge = box.getBoundingClientRect();
  const rows = [...table.tBodies[0].rows].filter((row) => !row.querySelector(".nothing"));
  const beyond = [...table.querySelectorAll("th, td, .pill")].filter((cell) => {
    const place = cell.getBoundingClientRect();
    return place.width > 0 && (place.right > edge.right + 1 || place.left < edge.left - 1);
  });
  return {
    name: box.getAttribute("aria-label"), over: box.scrollWidth - box.clientWidth,
    heights: rows.map((row) => row.getBoundingClientRect().height),
    beyond: beyond.map((cell) => cell.outerHTML.slice(0, 120)),
  };
})
"""


@pytest.fixture(scope="module")
def odd(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """One whose names are as long as they may be, its rewards huge, its models and causes many."""
    for shown in serving(tmp_path_factory.mktemp("odd"), seeded=False):
        shown.fails({f"cause/{n}": f"{'c' * 60}_{n}" for n in range(CAUSES)}, batch="causes")
        for n in range(40):
            batch, name = (ODD, f"{ODD[:190]}-{n}") if n < 4 else ("odd", f"odd/{n}")
            shown.registers(
                id=name, batch=batch, task=ODD if n < 2 else f"task-{n}",
                model=f"{'m' * 150}-{n}", upstream="openai",
            )  # fmt: skip
            model = {"model": f"{'m' * 150}-{n}", "messages": []}
            error = {"error": {"message": "no", "code": f"{'c' * 60}_{n}"}}
            failed = n % 4 == 1 and answers.whole(error, status=500 + n)
            shown.provider.plays(failed or answers.chat())
            path = f"/r/{quote(name, safe='')}/openai/v1/chat/completions"
            httpx.post(shown.url + path, json=model)
            seen = {"rewards": {"reward": 909_090_909_090.5 * (n - 3)}}
            outcome = {"status": "success", "prompts_executed": 1, **seen}
            at = f"{shown.url}/rollouts/{quote(name, safe='')}/outcome"
            httpx.post(at, json=outcome, timeout=60).raise_for_status()
        yield shown


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS.keys())
def test_no_name_and_no_number_widens_a_table(odd: Shown, reader: Opener, path: str) -> None:
    page = reader(odd.url).opens(path)
    for width in (1920, 1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for table in page.evaluate(BOXES):
            assert table["over"] <= 0, (width, table["name"])
            assert table["beyond"] == [], (width, table["name"])
            if width >= 1440:
                heights = {round(height) for height in table["heights"]}
                assert all(34 <= height <= 38 for height in heights), (table["name"], heights)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert serious(page) == [], scheme
    if path == LISTS["causes"]:
        expect(page.locator("table.causes tfoot")).to_contain_text(re.compile(r"2[01]\d causes"))


def test_j_and_k_go_from_row_to_row_of_every_list(odd: Shown, shown: Shown, reader: Opener) -> None:
    places = [(odd.url, path) for name, path in LISTS.items() if name != "rollout"]
    places += [(shown.url, PAGES[name]) for name in ("groups", "find")]
    page = reader(odd.url).page
    other = reader(shown.url).page
    for url, path in places:
        here = page if url == odd.url else other
        here.goto(url + path)
        rows = here.locator("main tr[data-key]:has(> th a), #found > li")
        here.locator("#main").focus()
        for key, at in (("j", 0), ("j", min(1, rows.count() - 1)), ("k", 0)):
            here.keyboard.press(key)
            assert rows.nth(at).locator("a:focus").count() == 1, (path, key)


def test_pages_are_set_in_inter_and_as_wide_as_their_window(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/")
    body = "(look => [look.fontSize, look.lineHeight])(getComputedStyle(document.body))"
    assert page.evaluate(body) == ["13px", "20px"]
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('13px Inter'))")
    loaded = "performance.getEntriesByType('resource').filter(e => e.name.includes('inter')).length"
    assert page.evaluate(loaded) == 1, "what is preloaded is what is used"
    for window, wide in ((1440, 1408), (1920, 1760), (390, 358)):
        page.set_viewport_size({"width": window, "height": 900})
        assert page.evaluate("document.querySelector('main').clientWidth") == wide


def test_eighteen_batches_are_on_the_first_screen(odd: Shown, reader: Opener) -> None:
    for n in range(18):
        odd.registers(id=f"many/{n}", batch=f"many-{n}", model="gpt-5-mini", upstream="openai")
    page = reader(odd.url).opens("/")
    page.set_viewport_size({"width": 1440, "height": 900})
    ends = [row.bounding_box() for row in page.locator("table.batches tbody tr").all()[:18]]
    assert len(ends) == 18
    assert all(box is not None and box["y"] + box["height"] <= 900 for box in ends)


def test_the_first_screen_has_the_sentence_the_axis_and_what_to_do(
    odd: Shown, reader: Opener
) -> None:
    causes = (
        Fault.AUTH,
        Fault.QUOTA,
        Fault.PROVIDER_ERROR,
        Fault.RATE_LIMIT,
        Fault.REJECTED_REQUEST,
    )
    for n, fault in enumerate((None, *causes)):
        odd.registers(id=f"five-{n}", batch="five", model="gpt-5-mini", upstream="openai")
        odd.calls(f"five-{n}", fault and answers.FAILURES[Api.CHAT][fault])
        outcome = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
        at = f"{odd.url}/rollouts/five-{n}/outcome"
        httpx.post(at, json=outcome, timeout=60).raise_for_status()
    page = reader(odd.url).opens("/ui/batches/five")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator(".say")).to_contain_text("of 6 zeros are not measurements")
    rows = page.locator(".todo tbody tr")
    assert rows.count() >= 4
    for part in (page.locator(".say"), page.locator(".scorebar").first, *rows.all()):
        expect(part).to_be_in_viewport(ratio=1)
    expect(page.locator(".todo tfoot")).to_be_in_viewport(ratio=1)
    repeats = [int(text) for text in page.locator(".todo [data-label=Repeats]").all_inner_texts()]
    zeros = [int(text) for text in page.locator(".todo [data-label=Zeros]").all_inner_texts()]
    expect(page.locator(".todo tfoot")).to_contain_text(f"{sum(repeats)} of 6")
    expect(page.locator(".say")).to_contain_text(f"{sum(zeros)} of 6 zeros")
    assert page.locator(".squares svg").count() == 6


def test_a_menu_closes_by_key_and_by_a_click_elsewhere(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/")
    menu = page.locator("#choice-columns")
    shown_ = menu.get_by_role("button", name="Show these")
    for by_key in (True, False):
        menu.locator("summary").click()
        expect(shown_).to_be_visible()
        if by_key:
            page.keyboard.press("Escape")
        else:
            page.locator("h1").click()
        expect(shown_).to_be_hidden()


def test_help_shows_its_text_first_on_a_phone_and_its_tables_whole_on_a_desk(
    shown: Shown, reader: Opener
) -> None:
    page = reader(shown.url).opens("/ui/help/reference/settings.md")
    contents = page.get_by_role("navigation", name="Documentation")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(contents.get_by_role("link", name="Glossary")).to_be_visible()
    table = "(table => [table.scrollWidth, table.clientWidth])(document.querySelector('.scroll'))"
    whole, seen = page.evaluate(table)
    assert whole == seen
    page.set_viewport_size({"width": 390, "height": 844})
    expect(contents.get_by_role("link", name="Glossary")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    contents.get_by_text("Contents").click()
    expect(contents.get_by_role("link", name="Glossary")).to_be_visible()


SAID = """
() => [...document.querySelectorAll("h1, h2, h3, thead th, tbody th, tfoot th")]
  .filter((each) => !each.closest("dialog")).map((each) => each.textContent.trim())
"""


def test_without_javascript_each_page_says_the_same(shown: Shown, reader: Opener) -> None:
    plain, scripted = reader(shown.url, java_script_enabled=False), reader(shown.url)
    for name, path in PAGES.items():
        said = [tab.opens(path).evaluate(SAID) for tab in (plain, scripted)]
        assert said[0] == said[1] != [], name
    plain.complaints.clear()  # the browser reports the 404 itself
    scripted.complaints.clear()


def sorts_and_searches(page: Page, column: str, text: str) -> None:
    """Sort a list by its header, then search it; both stay in the address."""
    head = page.locator("thead th", has_text=re.compile(f"^{column}$"))
    head.get_by_role("link").first.click()
    expect(page.locator("thead th[aria-sort]").first).to_have_text(column)
    search = page.get_by_role("search").get_by_role("searchbox").first
    search.fill(text)
    search.press("Enter")
    expect(page).to_have_url(re.compile(f"(?=.*sort={column.lower()})(?=.*text=)"))
    found = page.locator("[data-rows] > tr[data-key]").all_inner_texts()
    assert found
    assert all(text in each for each in found)


def test_pages_can_be_read_without_javascript(shown: Shown, reader: Opener) -> None:
    tab = reader(shown.url, java_script_enabled=False)
    page = tab.opens("/")
    sorts_and_searches(page, "Score", "sonnet")
    page.get_by_role("link", name="terminal-bench-sonnet").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("terminal-bench-sonnet")
    page.get_by_role("link", name="Rollouts").last.click()
    page.get_by_text("+ Filter").click()
    page.get_by_text("Cause of failure").click()
    page.get_by_role("checkbox", name="auth").check()
    page.get_by_role("button", name="Filter").click()
    rows = page.locator("table.rollouts tbody tr")
    assert rows.count() > 0
    assert all("auth" in text for text in rows.all_inner_texts())
    sorts_and_searches(page, "Task", rows.locator("th").first.inner_text())
    expect(page.locator("#live")).to_be_hidden()
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("Choose a time").click()
    page.get_by_role("button", name="Show rollouts with failed calls").click()
    expect(page).to_have_url(re.compile("tab=rollouts&failed_since=.+&failed_until="))
    failed = rows.count()
    assert 0 < failed < 48
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("As a table").click()
    page.locator("#chart-table tbody th a").last.click()
    assert 0 < rows.count() < failed, "those of one step"


def brush(page: Page, chart: Locator, first: float, last: float) -> None:
    """Drag over a chart, from and to these shares of its width."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * first, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * last, box["y"] + 20)
    expect(page.locator(".brush")).to_be_visible()


def test_paper_has_what_was_measured_and_when_and_nothing_to_click(
    shown: Shown, reader: Opener
) -> None:
    tab = reader(shown.url)
    page = tab.opens("/ui/batches/swe-verified-gpt-5")
    line = page.locator(".printed")
    expect(line).to_be_hidden()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(23, 23, 26)"
    controls = (
        "nav",
        "button",
        "input",
        "select",
        ".menu",
        ".toolbar",
        ".ask",
        ".between",
        ".pick",
    )
    expect(line).to_have_text(re.compile(r"swe-verified-gpt-5 · truezero \d.* · \d{4}-.* UTC"))
    expect(line).to_be_visible()
    kept = {
        "batch with a timeline": ["text=planned repeats measured", "table.todo"],
        "batches": ["table.batches tbody tr >> nth=0"],
        "tasks with retries": [".map", ".scores"],
        "two batches": [".difference", ".dumbbell:has(.before):has(.after) >> nth=0"],
        "cost": ["table.costs"],
    }
    for name, path in PAGES.items():
        page.goto(shown.url + path)
        for kind in controls:
            assert page.locator(f"{kind}:visible").count() == 0, (path, kind)
        for each in kept.get(name, ["h1"]):
            expect(page.locator(each)).to_be_visible()
    page.emulate_media(media="screen")
    tab.complaints.clear()  # the browser reports the 404 itself


def table(figure: Locator) -> list[list[str]]:
    """A chart's table: its heads, the values of each step, and those of all."""
    read: list[list[str]] = figure.evaluate(
        "figure => [...figure.querySelectorAll('tr')].map(row => "
        "[...row.cells].map(cell => cell.textContent))"
    )
    return read


def said(heads: list[str], row: list[str]) -> str:
    values = " · ".join(f"{head} {value}" for head, value in zip(heads[1:], row[1:], strict=True))
    return f"{row[0]}: {values}"


def test_a_chart_reads_its_values_out_by_keyboard_and_by_mouse(
    shown: Shown, reader: Opener
) -> None:
    page = reader(shown.url).opens("/ui/upstreams?window=86400")
    for name in ("calls", "latencies"):
        figure = page.locator(f"#upstream-openai-{name}")
        heads, *steps, _ = table(figure)
        readout, plots = figure.locator(".readout"), figure.locator("svg.plot")
        drawn = float(figure.locator(".drawn").first.get_attribute("height") or 0)
        page.get_by_role("img", name=plots.first.get_attribute("aria-label")).press("End")
        expect(readout).to_have_text(said(heads, steps[-1]))
        assert readout.get_attribute("aria-live") == "polite"
        page.keyboard.press("ArrowLeft")
        expect(readout).to_have_text(said(heads, steps[-2]))
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        expect(readout).to_have_text(said(heads, steps[0]))
        crosses = page.locator(".cross:visible")
        assert crosses.count() == plots.count(), "one in each part"
        for cross in crosses.all():
            box = cross.bounding_box()
            assert box is not None
            assert box["height"] == drawn
        assert serious(page) == []
        page.keyboard.press("Escape")
        expect(readout).to_have_text("")
        box = plots.last.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 4.5 / len(steps), box["y"] + 20)
        expect(readout).to_have_text(said(heads, steps[4]))
        page.mouse.move(0, 0)
        expect(readout).to_have_text("")
        expect(page.locator(".cross:visible")).to_have_count(0)


def test_values_that_are_read_out_stay_while_calls_arrive(shown: Shown, reader: Opener) -> None:
    shown.registers(id="read-out", batch="read-out", model="gpt-5-mini", upstream="openai")
    shown.calls("read-out")
    page = reader(shown.url).opens("/ui/batches/read-out")
    expect(page.locator("#live")).to_have_text("live")
    figure = page.locator("#chart")
    readout = figure.locator(".readout")
    figure.locator("svg.plot").press("Home")
    expect(readout).to_contain_text("all calls 1")
    page.evaluate(
        "window.taken = 0; new MutationObserver(() => { window.taken += 1; }).observe("
        "document.querySelector('#chart .readout'), { characterData: true, subtree: true })"
    )
    shown.calls("read-out", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(figure.locator("tfoot")).to_have_text("All12")
    heads, first, *_ = table(figure)
    assert heads[1:] == ["auth", "all calls"]
    expect(readout).to_have_text(said(heads, first))
    assert page.evaluate("document.activeElement.matches('svg.plot')")
    assert page.evaluate("window.taken") == 0, "what is read aloud is not the hint meanwhile"


# The share of a picture's points that have a colour.
POINTS_OF_COLOUR = """
async ([picture, colour]) => {
  const bytes = Uint8Array.from(atob(picture), (each) => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height), drawn = canvas.getContext("2d");
  drawn.drawImage(image, 0, 0);
  const { data } = drawn.getImageData(0, 0, image.width, image.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    found += colour.every((value, n) => data[at + n] === value);
  }
  return found / (data.length / 4);
}
"""


def test_a_picture_for_a_paper(shown: Shown, reader: Opener, tmp_path: Path) -> None:
    batch = "swe-verified-gpt-5"
    page = reader(shown.url, color_scheme="dark").opens(f"/ui/batches/{batch}")
    figure = page.locator("#chart")
    heads, *_, whole = table(figure)
    begin = table(figure)[1][0]

    def saved(kind: str) -> Path:
        with page.expect_download() as download:
            if not figure.locator(".save[open]").count():
                figure.locator(".save summary").click()
            figure.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"{batch}-Failed-calls.{kind.lower()}"
        download.value.save_as(tmp_path / kind)
        return tmp_path / kind

    drawing = ElementTree.parse(saved("SVG")).getroot()
    texts = [text for node in drawing.iter() if (text := (node.text or "").strip())]
    version = page.locator("footer").inner_text().split(" · ")[0]
    (caption,) = {text for text in texts if version in text}
    assert re.fullmatch(rf"{batch} · {begin} to \d{{4}}-.* UTC · {version}", caption)
    for head, value in zip(heads[1:], whole[1:], strict=True):
        assert f"{head} {value}" in texts
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    for node in drawing.iter():
        assert not {"class", "style", "href"} & set(node.attrib), "it stands alone"
        assert "%" not in "".join(node.attrib.values())
    fills = {node.get("fill") for node in drawing.iter()}
    assert {"#ffffff", "rgb(0, 99, 163)", "rgb(211, 212, 218)"} <= fills, "light, for paper"

    image = saved("PNG").read_bytes()
    wide, tall = struct.unpack(">II", image[16:24])
    assert (wide, tall) == (3 * int(drawing.attrib["width"]), 3 * int(drawing.attrib["height"]))
    picture = base64.b64encode(image).decode()
    for colour in ([255, 255, 255], [0, 99, 163], [211, 212, 218]):
        assert page.evaluate(POINTS_OF_COLOUR, [picture, colour]) > 0.01, colour
    assert serious(page) == []


def test_a_time_is_brushed_on_a_chart(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/ui/batches/swe-verified-gpt-5")
    brush(page, page.locator("svg[data-brush]"), 0.4, 0.7)
    page.keyboard.press("Escape")
    expect(page.locator(".brush")).to_be_hidden()
    page.mouse.up()
    expect(page).to_have_url(re.compile("gpt-5$"))
    brush(page, page.locator("svg[data-brush]"), 0.7, 0.4)
    page.mouse.up()
    expect(page).to_have_url(re.compile("tab=rollouts&failed_since=.+&failed_until="))
    expect(page.locator(".chips li").first).to_contain_text("failed since")
    rows = page.locator("table.rollouts tbody tr")
    assert 0 < rows.count() < 100, "some of all 176"
    page.goto(f"{shown.url}/ui/causes?window=86400")
    page.locator(".trend svg").first.dispatch_event(
        "pointerdown", {"isPrimary": True, "button": 0, "pointerType": "touch", "clientX": 9999}
    )
    page.locator("body").dispatch_event("pointerup", {"isPrimary": True, "clientX": 9999})
    expect(page).to_have_url(re.compile(r"causes\?since=.+&until="))
    page.goto(f"{shown.url}/ui/upstreams?window=86400")
    brush(page, page.locator("svg[data-brush]").first, 0.5, 0.99)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"upstreams\?since=.+&until="))
    assert serious(page) == []
    page.get_by_text("Choose a time").click()
    page.keyboard.press("Tab")
    expect(page.get_by_label("From (UTC)")).to_be_focused()
    page.get_by_label("From (UTC)").fill("2026-11-01T00:00")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=2026-11-01T00%3A00"))


def test_what_to_run_again_is_found_from_the_first_screen_and_copied_as_it_runs(
    shown: Shown, reader: Opener
) -> None:
    page = reader(shown.url, copies=True).opens(BATCH)
    page.locator(".todo tr", has_text="skipped").get_by_role("link", name="run again").click()
    expect(page).to_have_url(re.compile("tab=again#skipped$"))
    page.locator("#skipped").get_by_role("button", name="Copy", exact=True).click()
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(copied) > 9
    assert all(name.startswith("terminal-bench-sonnet/tb-") for name in copied)
    page.locator("#fix_first").get_by_role("button", name="Copy the command").click()
    command = page.evaluate("navigator.clipboard.readText()")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, check=True
    )
    lines = done.stdout.decode().splitlines()
    printed = [line for line in lines if line.startswith("truezero run ")]
    assert len(printed) == 10
    assert all("--batch terminal-bench-sonnet" in line for line in printed)


def test_a_batch_follows_its_calls_live(shown: Shown, reader: Opener) -> None:
    shown.registers(id="live-1", batch="live", model="gpt-5-mini", upstream="openai")
    page = reader(shown.url).opens("/ui/batches/live?tab=rollouts")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.sameTab = true")
    row = page.locator("table.rollouts tbody tr", has_text="live-1")
    expect(row).to_contain_text("undecided")
    page.get_by_role("searchbox").fill("being typed")
    shown.calls("live-1", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(row).to_contain_text("auth")
    shown.calls("live-1", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(row).to_contain_text("doomed")
    overview = reader(shown.url).opens("/ui/batches/live")
    bar = overview.get_by_role("img", name=re.compile("1 rollout: 1 auth")).first
    expect(bar).to_be_visible()
    shown.registers(id="live-2", batch="live", model="gpt-5-mini", upstream="openai")
    page.get_by_role("button", name="1 new · show").click()
    expect(page.locator("table.rollouts tbody tr")).to_have_count(2)
    assert page.evaluate("window.sameTab") is True, "the page was not loaded again"
    expect(page.get_by_role("searchbox")).to_have_value("being typed")


def test_what_a_reader_opened_stays_open_and_held(shown: Shown, reader: Opener) -> None:
    shown.registers(id="held-1", batch="held", model="gpt-5-mini", upstream="openai")
    page = reader(shown.url).opens("/ui/batches/held")
    expect(page.locator("#live")).to_have_text("live")
    page.locator("#check summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#check .lines")).to_be_visible()
    shown.registers(id="held-2", batch="held", model="gpt-5-mini", upstream="openai")
    expect(page.locator("#check .lines li")).to_have_count(2)
    expect(page.locator("#check .lines")).to_be_visible()
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_new_rows_wait_while_rows_that_are_read_change_in_place(
    shown: Shown, reader: Opener
) -> None:
    for n in range(3):
        shown.registers(id=f"still-{n}", batch="still", model="gpt-5-mini", upstream="openai")
    page = reader(shown.url).opens("/ui/batches/still?tab=rollouts")
    expect(page.locator("#live")).to_have_text("live")
    rows = page.locator("table.rollouts tbody tr")
    link = rows.nth(1).get_by_role("link").first
    link.focus()
    page.evaluate("window.row = document.querySelectorAll('table.rollouts tbody tr')[1]")
    order = rows.locator("th").all_inner_texts()
    for n in range(3, 11):
        shown.registers(id=f"still-{n}", batch="still", model="gpt-5-mini", upstream="openai")
    more = page.get_by_role("button", name="8 new · show")
    expect(more).to_be_visible()
    shown.calls("still-1", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(rows.nth(1)).to_contain_text("auth")
    assert rows.locator("th").all_inner_texts() == order
    assert page.evaluate("window.row.isConnected && window.row.contains(document.activeElement)")
    assert serious(page) == []
    more.click()
    expect(rows).to_have_count(11)
    expect(more).to_be_hidden()
    assert page.evaluate("window.row.isConnected"), "the row is the same one, further down"
    page.set_viewport_size({"width": 1280, "height": 400})
    page.keyboard.press("End")
    shown.registers(id="still-11", batch="still", model="gpt-5-mini", upstream="openai")
    page.get_by_role("button", name="1 new · show").click()
    expect(rows.filter(has_text="still-11")).to_be_in_viewport()
    page.set_viewport_size(WINDOW)


def test_nothing_changes_while_text_is_selected(shown: Shown, reader: Opener) -> None:
    shown.registers(id="read-1", batch="read", model="gpt-5-mini", upstream="openai")
    page = reader(shown.url).opens("/ui/batches/read?tab=rollouts")
    watcher = reader(shown.url).opens("/ui/batches/read?tab=rollouts")
    expect(page.locator("#live")).to_have_text("live")
    row = page.locator("table.rollouts tbody tr")
    row.locator("a.id").select_text()
    shown.calls("read-1", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(watcher.locator("table.rollouts tbody tr")).to_contain_text("auth")
    assert "auth" not in row.inner_text()
    assert page.evaluate("document.getSelection().toString()").strip() == "read-1"
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(row).to_contain_text("auth")


def test_back_and_forward_show_what_the_address_says(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens(f"{BATCH}?tab=rollouts")
    first, second = (
        page.locator(f"[type=checkbox][value={name}]") for name in ("not_judged", "api_error")
    )
    for box, address in ((first, "health=not_judged#"), (second, "health=api_error,not_judged#")):
        page.get_by_text("+ Filter").click()
        if not box.is_visible():
            page.locator("#choice-filter").get_by_text("Verdict").click()
        box.check()
        page.get_by_role("button", name="Filter").click()
        expect(page).to_have_url(re.compile(address))
    page.go_back()
    expect(page).to_have_url(re.compile("health=not_judged#"))
    expect(first).to_be_checked()
    expect(second).not_to_be_checked()
    page.go_back()
    expect(first).not_to_be_checked()
    page.go_forward()
    expect(first).to_be_checked()
    assert page.locator("table.rollouts tbody tr").count() > 0


def test_ticked_batches_stay_ticked_until_they_are_cleared(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/")
    expect(page.locator("#live")).to_have_text("live")
    ticks = [
        page.get_by_role("checkbox", name=f"Compare {batch}", exact=True)
        for batch in ("terminal-bench-sonnet", "gaia-nightly")
    ]
    for tick in ticks:
        tick.check()
    shown.registers(id="ticked-1", batch="ticked", model="gpt-5-mini", upstream="openai")
    page.get_by_role("button", name="1 new · show").click()
    for tick in ticks:
        expect(tick).to_be_checked()
    page.get_by_role("button", name="Compare two ticked batches").click()
    expect(page).to_have_url(re.compile("a=gaia-nightly&b=terminal-bench-sonnet"))
    expect(page.get_by_role("link", name="only in A 60")).to_be_visible()
    page.go_back()
    for tick in ticks:
        expect(tick).to_be_checked()
    page.get_by_role("button", name="Clear").click()
    expect(ticks[0]).not_to_be_checked()
    page.reload()
    expect(ticks[1]).not_to_be_checked()


def test_the_first_call_appears_by_itself(browser: Browser, reader: Opener, tmp_path: Path) -> None:
    for empty in serving(tmp_path, seeded=False):
        page = reader(empty.url).opens("/")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.get_by_role("heading", level=2)).to_have_text("No calls yet")
        assert serious(page) == []
        empty.calls("my-first-rollout")
        page.get_by_role("link", name="1 rollout without a batch").click()
        expect(page.locator("table.rollouts tbody")).to_contain_text("healthy")
        page.goto("about:blank")  # the server waits for those who listen


def test_a_page_is_walked_by_keyboard(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "where the focus is can be seen"


def test_the_palette_jumps_by_keyboard(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens("/ui/upstreams?window=86400")
    page.keyboard.press("/")
    field = page.get_by_role("dialog").get_by_role("searchbox")
    expect(field).to_be_focused()
    assert serious(page) == []
    found = page.get_by_role("dialog").get_by_role("link")
    field.fill("sonnet tb-020")
    expect(found.first).to_contain_text("task tb-020")
    field.fill("tb-020.0")
    expect(found.first).to_contain_text("terminal-bench-sonnet/tb-020.0")
    page.keyboard.press("ArrowDown")
    expect(found.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("terminal-bench-sonnet/tb-020.0")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_keys_open_the_palette_and_go_from_row_to_row(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens(f"{BATCH}?tab=rollouts")
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#main").focus()
    names = page.locator("table.rollouts tbody th a").all_inner_texts()
    for key in "jjjk":
        page.keyboard.press(key)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.locator("h2.id")).to_have_text(names[1])
    expect(panel.locator(".sentence")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(names[1])


def test_the_proof_opens_beside_the_list_and_follows_the_keys(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url).opens(f"{BATCH}?tab=rollouts&subcategory=auth")
    rows = page.locator("table.rollouts tbody tr")
    names = rows.locator("th a").all_inner_texts()
    panel = page.get_by_role("complementary")
    expect(panel).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(panel.locator("h2.id")).to_have_text(names[0])
    expect(panel).to_contain_text("does not count: the key was refused")
    calls = panel.locator(".calls ol > li.evidence")
    assert calls.count() > 0
    expect(calls.first).to_contain_text("401 auth")
    assert serious(page) == []
    page.keyboard.press("j")
    expect(panel.locator("h2.id")).to_have_text(names[1])
    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    assert page.url.endswith("#open=" + quote(names[1], safe=""))
    page.keyboard.press("k")
    expect(panel.locator("h2.id")).to_have_text(names[0])
    panel.locator(".verdict a[href^='#']").first.click()
    assert page.evaluate("document.activeElement.closest('.panel .calls details').open")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    assert page.evaluate("document.activeElement.innerText") == names[0]
    assert page.url.endswith("subcategory=auth")
    rows.nth(2).locator("th a").click()
    expect(panel.locator("h2.id")).to_have_text(names[2])
    page.reload()
    expect(panel.locator("h2.id")).to_have_text(names[2])  # an address that is passed on
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()
    page.goto(f"{shown.url}{BATCH}?tab=rollouts&health=healthy&sort=total_tokens")
    rows.nth(0).locator("th a").click()
    every = panel.get_by_role("link", name=re.compile(r"^All \d+$")).inner_text()
    assert int(every.removeprefix("All")) > panel.locator(".calls ol > li").count() > 0
    page.set_viewport_size({"width": 800, "height": 900})
    names = rows.locator("th a").all_inner_texts()
    page.keyboard.press("Escape")
    rows.nth(0).locator("th a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(names[0])
    page.set_viewport_size(WINDOW)


def test_an_open_proof_changes_with_its_row(shown: Shown, reader: Opener) -> None:
    shown.registers(id="beside-1", batch="beside", model="gpt-5-mini", upstream="openai")
    page = reader(shown.url).opens("/ui/batches/beside?tab=rollouts")
    expect(page.locator("#live")).to_have_text("live")
    page.locator("table.rollouts tbody th a").click()
    panel = page.get_by_role("complementary")
    expect(panel.locator("h2.id")).to_have_text("beside-1")
    shown.calls("beside-1", answers.FAILURES[Api.CHAT][Fault.AUTH])
    expect(panel.locator(".calls ol > li summary")).to_contain_text("401")
    expect(page.locator("table.rollouts tbody tr")).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(panel).to_be_hidden()


def test_a_call_opens_to_all_that_is_stored_of_it(shown: Shown, reader: Opener) -> None:
    page = reader(shown.url, copies=True).opens("/ui/rollouts/terminal-bench-sonnet%2Ftb-020.0")
    page.locator(".calls summary").last.focus()
    page.keyboard.press("Enter")
    drawer = page.locator(".calls .drawer").last
    expect(drawer).to_contain_text("provider's request id")
    assert serious(page) == []
    drawer.get_by_role("button", name="Copy JSON").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (copied["status"], copied["subcategory"]) == (401, "auth")
    page.get_by_role("link", name="Failed or not ended").click()
    assert page.locator(".calls ol > li").count() == 2
    page.get_by_role("spinbutton", name="Go to call").fill("3")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("show=all&at=3#call-3$"))
    expect(page.locator("#call-3")).to_be_in_viewport()


def test_pages_stand_behind_the_token(browser: Browser, reader: Opener, tmp_path: Path) -> None:
    for guarded in serving(tmp_path, seeded=False, ADMIN_TOKEN=TOKEN):
        tab = reader(guarded.url)
        page = tab.opens("/ui/upstreams?window=3600")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        assert serious(page) == []
        page.get_by_label("Admin token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_have_text(WRONG)
        tab.complaints.clear()  # the browser reports the 403 itself
        page.get_by_label("Admin token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(re.compile("/ui/upstreams"))
        expect(page.locator("#live")).to_have_text("live")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
        assert page.context.cookies() == []
        link = sign_in_link(
            Database(str(tmp_path / "t.db")), load({}, {"TRUEZERO_ADMIN_TOKEN": TOKEN}), port=8383
        ).removeprefix("http://127.0.0.1:8383")
        tab.opens(link)
        expect(page).to_have_url(f"{guarded.url}/")
        expect(page.locator("#live")).to_have_text("live")
        page.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(f"{guarded.url}/ui/sign-in")  # the link loads no other page
        tab.opens(link)
        expect(page.get_by_role("alert")).to_have_text(WRONG)
        assert "#" not in page.url, "a link that was used stays in no history"
        tab.complaints.clear()

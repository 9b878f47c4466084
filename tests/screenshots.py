"""The pictures of the dashboard in docs/screenshots, taken anew of a seeded database.

Run it as ``make screenshots``. ``python -m tests.screenshots FOLDER`` writes each page that has a
drawing beside it into one picture instead, and no other file.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes import seed
from tests.fakes.relaying import running
from tests.journeys import browser as chrome

FOLDER = Path(__file__).parent.parent / "docs" / "screenshots"
LARGEST = 200_000  # bytes of one picture


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: a page, the height of the window in pixels, and its colours."""

    path: str
    height: int
    scheme: Literal["light", "dark"] = "light"


SHOTS: Mapping[str, Shot] = {
    "batches": Shot("/", 560),
    "batch": Shot("/ui/batches/swe-verified-gpt-5", 980),
    "batch-dark": Shot("/ui/batches/terminal-bench-sonnet", 980, "dark"),
    "rollout": Shot("/ui/rollouts/terminal-bench-sonnet%2Ftb-020.0", 1230),
    "upstreams": Shot("/ui/upstreams?window=86400", 880),
}


DRAWINGS = FOLDER.parent.parent.parent / "shared" / "design" / "pages" / "png"
# A page, its width, and the name of its drawing.
DRAWN: Mapping[str, tuple[str, str]] = {
    "batches": ("/", "runs-1440.png"),
    "overview": ("/ui/batches/terminal-bench-sonnet", "three-1440.png"),
    "rollouts": ("/ui/batches/terminal-bench-sonnet?tab=rollouts", "rollouts-1440.png"),
    "rollout": ("/ui/rollouts/terminal-bench-sonnet%2Ftb-020.0#call-8", "rollout-1440.png"),
    "tasks": ("/ui/batches/swe-verified-gpt-5?tab=tasks", "tasks-1440.png"),
    "compare": ("/ui/compare?a=gaia-nightly-1&b=gaia-nightly", "compare-1440.png"),
    "upstreams": ("/ui/upstreams?window=86400", "upstreams-1440.png"),
}


def main() -> None:
    if chrome.chromium() is None:
        sys.exit(chrome.MISSING)
    beside = Path(sys.argv[1]) if sys.argv[1:] else None
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "t.db")
        _seeded(file)
        environment = {"TRUEZERO_DATABASE_URL": file}
        with running(Application(load({}, environment), environment)) as port:
            url = f"http://127.0.0.1:{port}"
            _take_all(url) if beside is None else _take_beside(url, beside)


def _seeded(file: str) -> None:
    database = Database(file)
    database.prepare()
    asyncio.run(seed.fill(database, now=time.time()))
    database.heartbeat("seed", host="elsewhere", now=time.time() + 3600)
    database.close()


def _take_all(url: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with chrome.launched() as browser:
        for name, shot in SHOTS.items():
            picture = _take(browser, url + shot.path, shot)
            if len(picture) > LARGEST:
                sys.exit(f"{name}.png would have {len(picture):,} bytes, more than {LARGEST:,}")
            (FOLDER / f"{name}.png").write_bytes(picture)
            sys.stdout.write(f"{name}.png: {len(picture):,} bytes\n")


def _take_beside(url: str, folder: Path) -> None:
    """Write each page beside its drawing, in both colours."""
    folder.mkdir(parents=True, exist_ok=True)
    with chrome.launched() as browser:
        pair = browser.new_page(viewport={"width": 2900, "height": 1000})
        for name, (path, drawing) in DRAWN.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    color_scheme=scheme, viewport={"width": 1440, "height": 1000}
                )
                page.goto(url + path)
                pictures = [page.screenshot(animations="disabled", full_page=True)]
                pictures += [(DRAWINGS / drawing).read_bytes()]
                shown = "".join(
                    f'<img width="1440" src="data:image/png;base64,{b64encode(each).decode()}">'
                    for each in pictures
                )
                look = "display:flex;align-items:flex-start;gap:8px;margin:0"
                pair.set_content(f'<body style="{look}">{shown}</body>')
                pair.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
                page.close()


def _take(browser: Browser, url: str, shot: Shot) -> bytes:
    context = browser.new_context(
        color_scheme=shot.scheme, viewport={"width": 1280, "height": shot.height}
    )
    page = context.new_page()
    page.goto(url)
    page.locator("#live.on").wait_for()
    picture = page.screenshot(animations="disabled")
    context.close()
    return picture


if __name__ == "__main__":
    main()

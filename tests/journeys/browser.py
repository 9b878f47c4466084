"""A real browser: Debian's chromium, driven by Playwright, that talks to nobody by itself.

It downloads nothing: where chromium is not installed, it says so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

MISSING = "no chromium here: apt-get install chromium"

_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium() -> str | None:
    """Where chromium is; None where it is not."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def in_ci() -> bool:
    return os.environ.get("CI", "") not in ("", "false", "0")


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """The browser, with an empty profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*_FLAGS])
        try:
            yield browser
        finally:
            browser.close()

"""What must work in a copy of the tree without some features: ``python -m tests.features.without``.

It runs in the copy, and has no limit of time. The first argument are the words that must be gone
(`tests.features.removal`), the second is how many of the golden calls are left out for each that is
played. It ends with 0, or with the first assertion that does not hold.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
import httpx
from click.testing import CliRunner

import proxy
import proxy.app
import proxy.control_plane
import proxy.server.serve
from proxy.settings import Settings, SettingsError, load
from tests import golden, reference_pages
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.features.removal import Traces, from_argument
from tests.golden.calls import CASES, KeptCalls
from tests.golden.scenario import ASK, CHAT, PASSED, SK, ZERO, service
from truezero.cli import COMMANDS
from truezero.cli import app as command_line

ROOT = Path(__file__).parent.parent.parent
_LINK = re.compile(r'(?:href|src|action)="(/[^"#]*)')
_POSTED = re.compile(r'<form[^>]*method="post"[^>]*>')
_PAGES = ("/", "/ui/batches/b", "/ui/rollouts/good", "/ui/rollouts", "/ui/upstreams")


def check_commands(gone: Traces) -> None:
    """Have every command that is left explain itself, and none that is gone."""
    context = click.Context(command_line)
    for name in [name for rows in COMMANDS.values() for name in rows]:
        done = CliRunner().invoke(command_line, [name, "--help"])
        assert done.exit_code == 0, (name, done.output, done.exception)
    listed = CliRunner().invoke(command_line, ["--help"]).output
    for name in gone.commands:
        assert command_line.get_command(context, name) is None, name
        assert not re.search(rf"^ +{name}  ", listed, re.MULTILINE), name


def check_settings(gone: Traces) -> None:
    """Refuse the settings that are gone as unknown ones."""
    assert not Settings.model_fields.keys() & set(gone.settings)
    for name in gone.settings:
        try:
            load({}, {f"TRUEZERO_{name.upper()}": "1"})
        except SettingsError as error:
            assert "unknown setting" in str(error), error
        else:
            raise AssertionError(f"{name} is still a setting")


def check_journey(gone: Traces, folder: Path) -> None:
    """Register two rollouts, have them call, report, be judged, and be seen on pages.

    Commands print their batch too.
    """
    pages = reference_pages.settings(), reference_pages.command_overview()
    for place, text in zip(("settings.md#settings", "cli.md#overview"), pages, strict=True):
        reference_pages.write(ROOT, {f"docs/reference/{place}": text})
    reference_pages.write(ROOT, {"docs/reference/cli.md#commands": reference_pages.command_pages()})
    with (
        Provider(answers.healthy) as provider,
        service(folder / "t.db", provider.url) as http,
    ):
        for name, outcome in {"good": PASSED, "silent": ZERO}.items():
            asked = {"id": name, "batch": "b", "task": name, "model": "gpt-5"}
            http.post("/rollouts", json=asked).raise_for_status()
            if outcome is PASSED:
                called = http.post(f"/r/{name}{CHAT}", json=ASK, headers=SK)
                assert called.json()["usage"]["prompt_tokens"] == answers.INPUT_TOKENS
            http.post(f"/rollouts/{name}/outcome", json=outcome).raise_for_status()
        healthy = http.get("/rollouts/good/verdict").raise_for_status().json()
        assert (healthy["health"], healthy["scoreable"]) == ("healthy", "yes"), healthy
        silent = http.get("/rollouts/silent/verdict").raise_for_status().json()
        assert silent["health"] != "healthy", silent
        assert http.get("/batches/b").raise_for_status().json()["rollouts"] == 2
        for command in ("batch", "check"):
            told = CliRunner().invoke(command_line, [command, "b", "--url", str(http.base_url)])
            assert "/ui/batches/b" in told.output, (command, told.output, told.exception)
        check_links(http)
        check_routes(gone, http)
        check_help(gone, http)


def check_links(http: httpx.Client) -> None:
    """Follow every link, form and picture of the plain pages: each leads somewhere."""
    seen: dict[str, str] = {}
    for page in _PAGES:
        text = http.get(page).raise_for_status().text
        for path in map(unescape, _LINK.findall(_POSTED.sub("", text))):
            seen.setdefault(path, page)
    for path, page in seen.items():
        if path.startswith("/ui/live"):
            continue  # which goes on for ever
        answer = http.get(path, follow_redirects=True)
        assert answer.status_code < 400, f"{page} leads to {path}, which answers {answer}"


def check_routes(gone: Traces, http: httpx.Client) -> None:
    """Find no route that is gone in the application, nor in its description."""
    document = http.get("/openapi.json")
    known = document.json()["paths"] if document.status_code == 200 else {}
    for method, path in gone.routes:
        plain = path.replace(":path}", "}")
        assert method.lower() not in known.get(plain, {}), (method, path)
        if "{" not in path:
            assert http.request(method, path).status_code in (404, 405), (method, path)


def check_help(gone: Traces, http: httpx.Client) -> None:
    """Find no setting and no command that is gone in the reference that `/help` shows."""
    if http.get("/help").status_code == 404:
        return
    for page, words in {
        "settings": [f"TRUEZERO_{name.upper()}" for name in gone.settings],
        "cli": [f"truezero {name}" for name in gone.commands],
    }.items():
        text = http.get(f"/ui/help/reference/{page}.md").raise_for_status().text
        found = [word for word in words if re.search(rf"{word}(?!\w)", _reference(text))]
        assert found == [], f"/help has {found} on the page of {page}"


def _reference(page: str) -> str:
    """Return the tables and headings of a page, which are made of the code, as text."""
    return " ".join(re.findall(r"<(?:td|h2)\b.*?</(?:td|h2)>", page, re.DOTALL))


def check_calls(left_out: int) -> None:
    """Relay golden calls byte for byte: each, or one of some."""
    kept = KeptCalls(golden.FOLDER / "calls.jsonl", CASES)
    for name in [*CASES][:: left_out + 1]:
        kept.check(name)


def main(words: str, left_out: str) -> None:
    """Check one after the other."""
    assert Path(proxy.__file__ or "").is_relative_to(ROOT), "another tree than this one is loaded"
    gone = from_argument(words)
    for line in _checked(gone, int(left_out)):
        sys.stdout.write(f"{line}\n")


def _checked(gone: Traces, left_out: int) -> Iterator[str]:
    check_settings(gone)
    yield "settings"
    with tempfile.TemporaryDirectory() as folder:
        check_journey(gone, Path(folder))
    yield "journey"
    check_commands(gone)
    yield "commands"
    check_calls(left_out)
    yield "calls"


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The documentation as files: contents, links, snippets and quoted sentences."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml

from proxy.routing.errors import RefusalCode
from tests.proxy.api.test_routes import serving
from tests.reference_pages import commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LEFT_OUT = "development"  # for those who change truezero, not for those who use it
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", _FENCE.sub("", text))


def snippets(language: str) -> Iterator[tuple[str, str]]:
    for page, text in TEXTS.items():
        for kind, code in _FENCE.findall(text):
            if kind == language:
                yield page.relative_to(DOCS).as_posix(), code


def test_five_pages_are_the_path_of_each_reader() -> None:
    _, _, paths = TEXTS[DOCS / "index.md"].partition("| you | read, in this order |\n|---|---|\n")
    rows = [row.strip("| ").split(" | ") for row in paths.partition("\n\n")[0].splitlines()]
    assert len(rows) == 5
    for reader, path in rows:
        pages = [DOCS / link for link in links(path)]
        pages += [ROOT / named for named in re.findall(r"`([\w./-]+)`", path)]
        assert len({page.resolve() for page in pages if page.exists()}) == 5, reader


def test_the_start_page_leads_to_every_page() -> None:
    read = [page for page in PAGES if not page.is_relative_to(DOCS / LEFT_OUT)]
    assert {page.relative_to(DOCS).as_posix() for page in read} - {"index.md"} <= set(
        links(TEXTS[DOCS / "index.md"])
    )


def test_every_link_of_the_files_beside_the_documentation_leads_somewhere() -> None:
    for file in (*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")):
        for link in links(file.read_text("utf-8")):
            if not link.startswith(("https://", "http://", "#")):
                assert (file.parent / link.partition("#")[0]).exists(), f"{file.name}: {link}"


def test_no_page_of_the_site_links_out_of_it() -> None:
    for page, text in TEXTS.items():
        if page.is_relative_to(DOCS / LEFT_OUT):
            continue
        for link in links(text):
            target = (page.parent / link.partition("#")[0]).resolve()
            inside = target.is_relative_to(DOCS) and not target.is_relative_to(DOCS / LEFT_OUT)
            assert inside or link.startswith("https://"), f"{page}: {link}"


def test_a_table_ends_with_an_empty_line() -> None:
    """Else the text behind it is a row of it."""
    behind = re.compile(r"^\|.*\n(?!\||\n|<!--)(.+)", re.MULTILINE)
    assert {page: behind.findall(_FENCE.sub("", text)) for page, text in TEXTS.items()} == {
        page: [] for page in PAGES
    }


def test_no_table_escapes_a_bar_in_code() -> None:
    """Outside a table Markdown shows the backslash; in one, not every renderer drops it."""
    assert [page for page, text in TEXTS.items() if re.search(r"`[^`\n]*\\\|[^`\n]*`", text)] == []


@pytest.mark.parametrize("language", ["python", "json", "toml", "yaml"])
def test_snippets_can_be_read(language: str) -> None:
    readers: dict[str, Callable[[str], object]] = {
        "python": lambda code: compile(
            code, "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
        ),
        "json": json.loads,
        "toml": tomllib.loads,
        "yaml": yaml.safe_load,
    }
    found = list(snippets(language))
    assert found
    for page, code in found:
        try:
            readers[language](code)
        except (SyntaxError, ValueError, yaml.YAMLError) as error:
            pytest.fail(f"{page}: {error}\n{code}")


@pytest.mark.slow
def test_the_snippets_of_the_sdk_page_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as service:
        monkeypatch.delenv("TRUEZERO_ADMIN_TOKEN", raising=False)
        monkeypatch.setenv("TRUEZERO_URL", str(service.http.base_url).rstrip("/"))
        page = (ROOT / "docs" / "reference" / "sdk.md").read_text("utf-8")
        snippets = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        namespace: dict[str, object] = {}
        for snippet in snippets:
            exec(compile(snippet, "sdk.md", "exec"), namespace)
        said = capsys.readouterr().out.splitlines()
        assert said[:3] == ["{'reward': 1.0}", "healthy None", "agent_stop"]
        assert said[3:7] == ["a 1 healthy", "b 1 healthy", "c 1 healthy", "1.0 1.0"]
        assert len(said) == 7 + 800 and said[7].startswith("tz-")
        for batch, rollouts in (("night-7", 3), ("night-8", 3), ("night-9", 2), ("night-10", 800)):
            assert service.get(f"/batches/{batch}")["rollouts"] == rollouts


def test_every_command_in_a_snippet_exists_with_its_options() -> None:
    known = {
        tuple(typed.split()[1:]): {option for each in command.params for option in each.opts}
        for typed, command in commands()
    }
    used = 0
    for page, code in [*snippets("sh"), *snippets("text"), ("README", readme_shell())]:
        for line in re.findall(
            r"^(?:\$ )?truezero ((?:db |card )?[a-z]+)( .*)?$", code, re.MULTILINE
        ):
            name, rest = tuple(line[0].split()), line[1].partition(" #")[0].partition("&&")[0]
            if name[0] == "card" and name not in known:
                name = ("card", "show")  # `truezero card BATCH`
            if name not in known:
                assert name[0] == "COMMAND", f"{page}: truezero {line[0]}"
            ours = rest.partition(" -- ")[0]
            flags = [each.partition("=")[0] for each in shlex.split(ours) if each[:2] == "--"]
            assert set(flags) <= known[name], f"{page}: truezero {line[0]}{rest}"
            used += 1
    assert used > 30


def readme_shell() -> str:
    text = (ROOT / "README.md").read_text("utf-8")
    return "\n".join(code for kind, code in _FENCE.findall(text) if kind == "sh")


# --- measurements --------------------------------------------------------------------------


MEASURED = sorted((DOCS / "measurements").glob("*.md"))


@pytest.mark.parametrize("page", MEASURED, ids=lambda page: page.name)
def test_each_page_of_measurements_says_when_where_and_by_which_command(page: Path) -> None:
    rows = [
        row.strip("| ").split(" | ")
        for table in re.findall(
            r"^\| measured \| machine \| command \|\n.*\n((?:\|.*\n)+)", TEXTS[page], re.MULTILINE
        )
        for row in table.splitlines()
    ]
    assert rows
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    commands = 0
    for when, machine, how in rows:
        assert re.match(r"\d{4}-\d{2}-\d{2}\b", when), when
        assert machine, when
        for words in map(str.split, re.findall(r"`([^`]+)`", how)):
            commands += 1
            if words[0] == "make":
                assert words[1] in targets, how
            else:
                assert words[:2] == ["python", "-m"], how
                module = ROOT / words[2].replace(".", "/")
                assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), how
    assert commands


# --- troubleshooting -----------------------------------------------------------------------


def source() -> str:
    """The code, with string literals that are written in pieces put together."""
    parts = ("classifier", "proxy", "truezero")
    files = [file for part in parts for file in sorted((ROOT / part).rglob("*.py"))]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text("utf-8") for file in files))


def test_troubleshooting_quotes_sentences_that_the_code_says() -> None:
    sentences, _, codes = TEXTS[DOCS / "troubleshooting.md"].partition("## Codes")
    said = source()
    quoted = re.findall(r"^\| `([^`]+)`", sentences, re.MULTILINE)
    assert len(quoted) > 15
    parts = [part.strip(" :") for each in quoted for part in each.split("…")]
    assert [each for each in parts if each not in said] == []
    named = {
        code
        for row in re.findall(r"^\| ([^|]+) \|", codes, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", row)
    }
    # mypy lets a refusal carry no other code; the rest are only counted and logged.
    counted = set(re.findall(r'refusals\.note\("(\w+)"\)', said))
    assert counted == {"invalid_http", "tls_handshake", "tls_spoken"}
    assert named == {*get_args(RefusalCode), *counted}

"""Pages match the code: tables, routes, commands, paths and names.

``python -m tests.test_docs`` updates the README's tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from classifier.rules import RULES, judge
from classifier.verdicts import Verdict
from classifier.warnings import WARNINGS
from classifier.weighing import WEIGHED
from proxy.app import Application
from proxy.routing.upstreams import BUILT_IN
from proxy.settings import Settings, load
from proxy.settings_sources import PREFIX
from proxy.store.database import Database
from tests.attack.all import CLAIMS
from tests.builders import rollout

README = Path(__file__).parent.parent / "README.md"
SECURITY = README.with_name("SECURITY.md")


def settings_table() -> str:
    rows = ["| variable | key | default | what |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        if name in ("upstreams", "keys"):
            continue
        default = "–" if field.default is None else f"`{_plain(field.default)}`"
        rows.append(f"| `{PREFIX}{name.upper()}` | `{name}` | {default} | {field.description} |")
    return "\n".join(rows)


def upstreams_table() -> str:
    rows = ["| name | origin |", "|---|---|"]
    for upstream in BUILT_IN.values():
        origin = f"`{upstream.url}`" if upstream.url else "set `TRUEZERO_UPSTREAM_AZURE`"
        rows.append(f"| `{upstream.name}` | {origin} |")
    return "\n".join(rows)


def harness_table() -> str:
    """The measured rows that a newcomer should see, without what they have in common."""
    page = (README.parent / "docs/measurements/integrations.md").read_text("utf-8")
    _, _, measured = page.partition("<!-- benchflow -->\n")
    rows = measured.partition("\n<!-- /benchflow -->")[0].splitlines()
    shown = [row for row in rows if row.startswith(_SHOWN)]
    return "\n".join([*rows[:2], *shown]).replace("provider api error [", "[")


_SHOWN = ("| dead key", "| empty account", "| account runs empty midway", "| empty answers")


def _plain(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def between(name: str) -> str:
    match = re.search(f"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", README.read_text(), re.DOTALL)
    assert match is not None, f"the README has no table of {name}"
    return match[1]


@pytest.mark.parametrize(
    ("name", "table"),
    [("settings", settings_table), ("upstreams", upstreams_table), ("harness", harness_table)],
)
def test_the_readmes_table_is_the_codes(name: str, table: object) -> None:
    assert callable(table)
    assert between(name) == table(), "run python -m tests.test_docs"


def test_the_readme_lists_every_route(tmp_path: Path) -> None:
    database = str(tmp_path / "t.db")
    Database(database).prepare()
    app = Application(load({"database_url": database}, {}), {})
    paths = app.control_plane().app.openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(re.findall(r"^\| `([A-Z]+ [^`]+)`", between("rest"), re.MULTILINE)) == routes


def test_the_readme_lists_every_command() -> None:
    from truezero.cli import app, database

    names = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    names |= {f"db {c.callback.__name__}" for c in database.registered_commands if c.callback}
    listed = re.findall(r"^\| `truezero ([a-z ]+?)(?: [A-Z]+)?`", README.read_text(), re.MULTILINE)
    assert set(listed) == names


def test_the_page_of_judging_lists_every_rule_and_warning() -> None:
    tables = dict(judging_tables())
    assert [row[0] for row in tables["rule"]] == [
        *(f"`{rule.__name__.strip('_')}`" for rule in RULES),
        "`healthy`",
    ]
    warnings = [*(name for name, _ in WARNINGS), *WEIGHED]
    assert [row[0] for row in tables["warning"]] == [f"`{name}`" for name in warnings]


def test_every_example_of_judging_is_judged_as_the_page_says() -> None:
    """A row of rules or warnings ends in its example; one of calls says what comes of them."""
    judged = 0
    for head, rows in judging_tables():
        for row in rows:
            calls, said = (row[0], row[1]) if head == "calls" else (row[-1], row[0])
            if calls == "–":
                continue
            found = verdict_on(calls.strip("`"))
            known = {f"`{name}`" for name in (found.rule, found.scoreable, *found.warnings)}
            assert said in known, row
            assert head != "rule" or row[1] == found.health.value, row
            judged += 1
    assert judged > 40


def judging_tables() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table of the page: the first column's name, and the rows' cells."""
    text = (README.parent / "docs" / "concepts" / "judging.md").read_text()
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        yield head[0], rows


def verdict_on(example: str) -> Verdict:
    """Judge calls in the language of ``tests.builders``, and ``name=value`` of the runner."""
    words = example.split()
    said: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
    said |= {name: int(value) for name, value in said.items() if value.isdigit()}
    return judge(rollout(*(word for word in words if "=" not in word), **said))


def test_every_test_that_the_threat_model_names_is_there() -> None:
    """``::name`` without a path refers to the last file."""
    root, file, names = README.parent, "", 0
    for match in re.finditer(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", SECURITY.read_text()):
        file = match[1] or file
        if match[2] is not None:
            assert f"def {match[2]}(" in (root / file).read_text(), match[0]
            names += 1
    assert names > 20


def test_every_attack_has_its_row_in_the_tables_of_security() -> None:
    text = SECURITY.read_text()
    assert [each.name for each in CLAIMS if f"::{each.name}`" not in text] == []


PAGES = [
    *(README.parent / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((README.parent / "docs").rglob("*.md")),
]
_TOP = "classifier|proxy|truezero|tests|docs|benchmarks|deploy"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    """Paths in backquotes count from the root, links from the page."""
    text, root = page.read_text(), README.parent
    paths = [root / path for path in re.findall(rf"`((?:{_TOP})/[\w./-]*)[`:]", text)]
    modules = re.findall(r"python -m ((?:benchmarks|classifier|deploy|tests)[\w.]*)", text)
    modules += re.findall(r"python -m (truezero\.[\w.]*\w)", text)
    paths += [root / name.replace(".", "/") for name in modules]
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text)
    paths += [page.parent / link for link in links]
    missing = [p for p in paths if not p.exists() and not p.with_suffix(".py").exists()]
    assert missing == []


def test_every_name_in_the_architecture_page_is_defined_there() -> None:
    """A name in backquotes is defined in the file that follows it in parentheses."""
    text = (README.parent / "docs" / "development" / "architecture.md").read_text()
    pairs = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", text)
    assert len(pairs) > 15
    for name, path in pairs:
        source = (README.parent / path).read_text()
        assert re.search(rf"^(?:class |def |){name}\b", source, re.MULTILINE), f"{name} in {path}"


def main() -> None:
    text = README.read_text()
    tables = {
        "settings": settings_table(),
        "upstreams": upstreams_table(),
        "harness": harness_table(),
    }
    for name, table in tables.items():
        text = text.replace(between(name), table)
    README.write_text(text)


if __name__ == "__main__":
    main()

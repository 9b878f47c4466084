"""Pages match the code: reference, tables, paths and names.

``python -m tests.test_docs`` writes what is generated: parts of pages between markers, and the
examples of the OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from proxy.web.format import anchor_of
from tests import api_examples, judging_pages, reference_pages
from tests.attack.all import CLAIMS
from tests.judging_pages import verdict_on
from tests.reference_pages import part, table
from tests.tables import sources
from tests.wires import page as wires
from truezero.cli import COMMANDS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SECURITY = README.with_name("SECURITY.md")


def harness_table() -> str:
    """The measured rows that a newcomer should see, without what they have in common."""
    page = (README.parent / "docs/measurements/integrations.md").read_text("utf-8")
    _, _, measured = page.partition("<!-- benchflow -->\n")
    rows = measured.partition("\n<!-- /benchflow -->")[0].splitlines()
    shown = [row for row in rows if row.startswith(_SHOWN)]
    return "\n".join([*rows[:2], *shown]).replace("provider api error [", "[")


_SHOWN = ("| dead key", "| empty account", "| account runs empty midway", "| empty answers")


# Commands of commands; `outcomes` alone lists them.
_WITHIN = {
    "card": ("show", "verify"),
    "outcomes": ("", "deliver"),
    "db": ("backup", "upgrade"),
}


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return reference_pages.generated()


@pytest.mark.slow
def test_reference_pages_are_the_codes(generated: dict[str, str]) -> None:
    for place, content in generated.items():
        file, _, marker = place.partition("#")
        text = (ROOT / file).read_text("utf-8")
        assert part(text, marker) == content, f"{place}: run python -m tests.test_docs"


@pytest.mark.slow
def test_reference_pages_name_every_call_command_and_setting(generated: dict[str, str]) -> None:
    document = reference_pages.openapi()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`" in generated["docs/reference/rest.md#calls"]
    listed = re.findall("^## `truezero (.+)`", generated["docs/reference/cli.md#commands"], re.M)
    names = [
        f"{name} {inner}".strip()
        for commands in COMMANDS.values()
        for name in commands
        for inner in _WITHIN.get(name, ("",))
    ]
    assert listed == names
    assert "`TRUEZERO_OPERATOR_KEY_PATHS`" in generated["docs/reference/settings.md#settings"]


def test_the_readme_shows_the_measured_table() -> None:
    assert part(README.read_text("utf-8"), "harness") == harness_table(), (
        "run python -m tests.test_docs"
    )


def test_the_readme_is_short_and_in_the_order_of_a_first_hour() -> None:
    text = README.read_text("utf-8")
    assert len(text.split()) < 500
    assert re.findall("^## (.+)", text, re.M) == [
        "Start", "Audit what you have already", "One call, one verdict", "Your own loop",
        "My key died", "More",
    ]  # fmt: skip
    assert text.index("<!-- harness -->") < text.index("## Start")


def test_pages_of_judging_are_the_codes() -> None:
    for place, content in judging_pages.generated().items():
        file, _, marker = place.partition("#")
        assert part((ROOT / file).read_text("utf-8"), marker) == content, (
            f"{place}: run python -m tests.test_docs"
        )


def test_every_example_of_judging_is_judged_as_the_page_says() -> None:
    """A row of rules or warnings ends in its example; one of calls says what comes of them."""
    judged = 0
    for head, rows in judging_tables():
        for row in rows if head in ("calls", "rule", "warning") else ():
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
    for found in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = [line.strip("| ").split(" | ") for line in found.splitlines()]
        yield head[0], rows


def test_every_test_that_the_threat_model_names_is_there() -> None:
    """``::name`` without a path refers to the last file."""
    root, file, names = README.parent, "", 0
    for match in re.finditer(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", SECURITY.read_text()):
        file = match[1] or file
        if match[2] is not None:
            text = (root / file).read_text()
            assert f"def {match[2]}(" in text or f'_register("{match[2]}"' in text, match[0]
            names += 1
    assert names > 20


def attacks() -> str:
    """What `make attack` claims, by the function that tries it."""
    return table(
        ("claim", "attack"),
        (
            (each.sentence, f"`{each.attack.__module__.replace('.', '/')}.py::{each.name}`")
            for each in CLAIMS
        ),
    )


def test_security_has_every_attack() -> None:
    assert part(SECURITY.read_text("utf-8"), "attacks") == attacks(), (
        "run python -m tests.test_docs"
    )


# Words that people write into pages, code included; raised on purpose only.
WORDS = 35_300

PAGES = [
    *(README.parent / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((README.parent / "docs").rglob("*.md")),
]
_TOP = "classifier|proxy|truezero|tests|docs|benchmarks|deploy"


def by_hand(page: Path) -> int:
    """Count the words of a page, code included, without what stands between two markers."""
    text = page.read_text("utf-8")
    return len(re.sub(r"<!-- (.+?) -->\n.*?<!-- /\1 -->", "", text, flags=re.DOTALL).split())


def test_pages_stay_short() -> None:
    """Benchmarks are left out, whose page is written by a program."""
    counted = {page: by_hand(page) for page in PAGES if page.name != "benchmarks.md"}
    longest = sorted(counted, key=lambda page: -counted[page])[:5]
    said = ", ".join(f"{page.relative_to(ROOT)} {counted[page]:,}" for page in longest)
    assert sum(counted.values()) < WORDS, f"{sum(counted.values()):,} words; {said}, …"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    """Paths in backquotes count from the root, links from the page.

    A page that writes a feature heads each file that it makes with its path.
    """
    text, root = page.read_text(), README.parent
    made = re.findall(r"^`([\w./]+)`:\n\n```", text, re.MULTILINE)
    named = re.findall(rf"`((?:{_TOP})/[\w./-]*)[`:]", text)
    paths = [root / path for path in named if not any(file.startswith(path) for file in made)]
    modules = re.findall(r"python -m ((?:benchmarks|classifier|deploy|tests)[\w.]*)", text)
    modules += re.findall(r"python -m (truezero\.[\w.]*\w)", text)
    paths += [root / name.replace(".", "/") for name in modules]
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", text)
    paths += [page.parent / link for link in links]
    missing = [p for p in paths if not p.exists() and not p.with_suffix(".py").exists()]
    assert missing == []


@cache
def sections(page: Path) -> dict[str, str]:
    """Read a page's sections, each with those inside it, by their headings' ids."""
    parts = re.split(r"^(#+) (.+)\n", page.read_text("utf-8"), flags=re.MULTILINE)[1:]
    found: dict[str, list[str]] = {}
    around: list[tuple[int, str]] = []
    for marks, heading, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        around = [each for each in around if each[0] < len(marks)]
        around.append((len(marks), anchor_of(heading)))
        for _, name in around:
            found.setdefault(name, []).append(text)
    return {name: "".join(texts) for name, texts in found.items()}


def test_every_section_that_a_table_names_as_a_source_is_there() -> None:
    """And each name in backquotes behind it stands in that section."""
    named = 0
    for place, source in sources():
        for page, section, said in _SECTION.findall(source):
            text = sections(ROOT / page).get(section)
            assert text is not None, f"{place}: {page} has no section {section}"
            missing = [name for name in re.findall(r"`(.+?)`", said) if name not in text]
            assert not missing, f"{place}: not in {page}#{section}: {missing}"
            named += 1
    assert named > 1_000


_SECTION = re.compile(r"(?:^|; )(docs/[\w/-]+\.md)#([\w-]+)([^;]*)")


def test_every_name_in_the_architecture_page_is_defined_there() -> None:
    """A name in backquotes is defined in the file that follows it in parentheses.

    Likewise on the pages that go into its parts.
    """
    folder = README.parent / "docs" / "development"
    pages = ("architecture.md", "parts.md", "where-to-add.md", "features.md")
    text = "\n".join((folder / page).read_text() for page in pages)
    pairs = re.findall(r"`(\w+)`\s+\(`([\w/]+\.py)`\)", text)
    assert len(pairs) > 45
    for name, path in pairs:
        source = (README.parent / path).read_text()
        assert re.search(rf"^(?:class |(?:async )?def |){name}\b", source, re.MULTILINE), (
            f"{name} in {path}"
        )


def test_the_table_of_the_control_plane_has_each_of_its_files() -> None:
    text = (ROOT / "docs/development/parts.md").read_text("utf-8")
    _, _, table = text.partition("| file of `proxy/control/` |")
    listed = re.findall(r"`(\w+\.py)`", "\n".join(re.findall(r"^\| (`[^|]+) \|", table, re.M)))
    there = {file.name for file in (ROOT / "proxy/control").glob("*.py")} - {"__init__.py"}
    assert sorted(listed) == sorted(there)


def main() -> None:
    from tests.features.metrics.test_metrics import whole  # of a feature, which may be gone

    api_examples.FILE.write_text(api_examples.text(), "utf-8")
    parts = {
        **reference_pages.generated(),
        **judging_pages.generated(),
        **wires.generated(),
        "docs/operations/observability.md#metrics": reference_pages.metrics(
            whole().exposition()[0].decode()
        ),
        "README.md#harness": harness_table(),
        "SECURITY.md#attacks": attacks(),
    }
    reference_pages.write(ROOT, parts)


if __name__ == "__main__":
    main()

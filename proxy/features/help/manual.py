"""The pages of `docs/`: their contents and addresses, and the sections that hold a text.

A checkout has them beside the packages, and wheels and the image inside this one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import metadata
from pathlib import Path
from typing import NamedTuple

from proxy.web.format import anchor_of
from proxy.web.manual_links import Jump, Manual
from proxy.web.panels import NavigationItem

START = "index.md"
Entry = tuple[str, str]  # the label of a page, and its file

# For those who use truezero; docs/development is for those who change it.
CONTENTS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    ("", (("Start", START), ("Troubleshooting", "troubleshooting.md"))),
    (
        "Concepts",
        (
            ("Overview", "concepts/index.md"),
            ("Verdicts", "concepts/verdicts.md"),
            ("How a rollout is judged", "concepts/judging.md"),
            ("Validity", "concepts/validity.md"),
            ("Batches and scores", "concepts/batches.md"),
            ("Glossary", "concepts/glossary.md"),
        ),
    ),
    (
        "Guides",
        (
            ("Your own loop", "guides/your-own-loop.md"),
            ("Agents", "guides/agents.md"),
            ("Harnesses", "guides/integrations.md"),
            ("Clients and SDKs", "guides/clients.md"),
            ("One client for many rollouts", "guides/identity.md"),
            ("CI", "guides/ci.md"),
            ("Publishing a score", "guides/publishing.md"),
            ("Reinforcement learning", "guides/rl.md"),
            ("Traces that others keep", "guides/traces.md"),
            ("Audit finished runs", "guides/audit.md"),
            ("Drill an agent", "guides/drill.md"),
            ("Health of providers", "guides/health.md"),
            ("Budgets", "guides/budgets.md"),
            ("Pace", "guides/pace.md"),
            ("Unknown errors", "guides/unknown-errors.md"),
            ("The judge by itself", "guides/judge-by-itself.md"),
            ("Optimisers and other loops", "guides/optimisers.md"),
            ("Phoenix, Langfuse, MLflow", "guides/sinks.md"),
            ("Bedrock and Vertex", "guides/bedrock-and-vertex.md"),
            ("Self-hosting", "guides/self-hosting.md"),
            ("Cluster", "guides/cluster.md"),
        ),
    ),
    (
        "Reference",
        (
            ("Settings", "reference/settings.md"),
            ("Upstreams", "reference/upstreams.md"),
            ("Wires", "reference/wires.md"),
            ("REST", "reference/rest.md"),
            ("Lists and filters", "reference/lists.md"),
            ("Commands", "reference/cli.md"),
            ("Python", "reference/sdk.md"),
        ),
    ),
    (
        "Operations",
        (
            ("Runbook", "operations/runbook.md"),
            ("Observability", "operations/observability.md"),
            ("Data", "operations/data.md"),
            ("Upgrading", "operations/upgrading.md"),
            ("Threat model", "operations/threat-model.md"),
        ),
    ),
    (
        "Measurements",
        (
            ("Reliability", "measurements/reliability.md"),
            ("Benchmarks", "measurements/benchmarks.md"),
            ("Scaling", "measurements/scaling.md"),
            ("Agents", "measurements/agents.md"),
            ("Attribution", "measurements/attribution.md"),
            ("Faults", "measurements/faults.md"),
            ("Health", "measurements/health.md"),
            ("Pace", "measurements/pace.md"),
            ("Harnesses", "measurements/integrations.md"),
            ("Versions", "measurements/versions.md"),
            ("The judge by itself", "measurements/cause-of.md"),
            ("Published runs", "measurements/public-runs.md"),
        ),
    ),
)


def folder() -> Path:
    """Return the folder of the documentation: in the package, else beside it in a checkout."""
    packaged = Path(__file__).with_name("docs")
    return packaged if packaged.exists() else Path(__file__).parents[3] / "docs"


def address(file: str) -> str:
    """Return the path at which a page is read, or a place of it."""
    return f"/ui/help/{file}"


class HelpSection(NamedTuple):
    """A section of a page: the page's label, its own heading, its address, and its first words."""

    page: str
    heading: str
    address: str
    text: str


_FOUND = 30  # sections on a page of results
TERMS = "| term |"  # the head of a table whose rows can be linked to
_HEADING = re.compile(r"^#{1,3} (.+)$")


def sections_with(docs: Path, text: str) -> list[HelpSection]:
    """Return the sections that hold all words of a text.

    Those with them in the heading come first, then those that have the text as it is written.
    """
    wanted = text.casefold().split()
    found = [
        (
            not all(word in each.heading.casefold() for word in wanted),
            " ".join(wanted) not in each.text.casefold(),
            each,
        )
        for each in _sections(docs)
        if all(word in f"{each.page} {each.heading} {each.text}".casefold() for word in wanted)
    ]
    found.sort(key=lambda item: item[:2])
    return [each for *_, each in found[:_FOUND]]


@cache
def _sections(docs: Path) -> Sequence[HelpSection]:
    """Split all pages at their headings; the glossary at its terms."""
    return [
        HelpSection(label, heading, address(f"{file}#{anchor}"), text)
        for _, entries in CONTENTS
        for label, file in entries
        for heading, anchor, text in _split((docs / file).read_text("utf-8"))
    ]


def _split(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the heading, anchor and text of each section, and of each row of a table of terms."""
    heading, anchor, lines, fenced, terms = "", "", list[str](), False, False
    used: Counter[str] = Counter()
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        begins = None if fenced else _HEADING.match(line)
        if begins is None:
            terms = terms or line.startswith(TERMS)
            if terms and line.startswith("| ") and not line.startswith((TERMS, "| ---")):
                term, meaning = (cell.strip() for cell in line.strip("| ").split(" | ", 1))
                yield term, anchor_of(term), meaning
            else:
                lines.append(line)
            continue
        if heading:
            yield heading, anchor, "\n".join(lines)
        heading = re.sub(r"`|\[|\]\([^)]*\)", "", begins[1])
        slug = anchor_of(heading)
        anchor = f"{slug}_{used[slug]}" if used[slug] else slug
        used[slug] += 1
        lines, terms = [], False
    yield heading, anchor, "\n".join(lines)


# --- the index for language models ---------------------------------------------------------------


def llms_text(docs: Path) -> str:
    """Return the contents as llms.txt: each page's link, and the sentence that it begins with.

    The form is https://llmstxt.org's: a heading, a quote, and lists of links below headings.
    """
    lines = ["# truezero", "", f"> {metadata('truezero')['summary']}"]
    for section, entries in CONTENTS:
        lines += ["", f"## {section or 'Start here'}", ""]
        for label, file in entries:
            sentence = _first_sentence((docs / file).read_text("utf-8"))
            lines.append(f"- [{label}]({address(file)}){f': {sentence}' if sentence else ''}")
    return "\n".join(lines) + "\n"


_NO_PROSE = ("#", "<", "!", "|", "```", "    ")  # heading, comment, picture, table, code


def _first_sentence(page: str) -> str:
    """Return the first sentence of a page's prose, without markup; empty if it has none."""
    for paragraph in page.split("\n\n"):
        if paragraph and not paragraph.startswith(_NO_PROSE):
            plain = _MARKUP.sub(lambda match: match[1] or "", paragraph)
            return re.split(r"(?<=[.:?]) (?=[A-Z])", " ".join(plain.split()), maxsplit=1)[0]
    return ""


# --- what a search finds -------------------------------------------------------------------------


_LISTED = 8  # pages and sections
_AROUND = 60  # characters that are shown before and after what was looked for
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*|#]|:?-{3,}:?")  # links keep their words


def find(text: str) -> list[Jump]:
    """Return links to the pages, then to the sections, that hold all words of a text."""
    named = _pages(text)
    sections = sections_with(folder(), text)[: max(0, _LISTED - len(named))]
    return [*named, *(_section(text, each) for each in sections)]


def _pages(text: str) -> list[Jump]:
    """Return the help pages whose title and section hold all words of a text."""
    words = text.casefold().split()
    return [
        Jump("help", label, address(file), section)
        for section, entries in CONTENTS
        for label, file in entries
        if words and all(word in f"{label} {section}".casefold() for word in words)
    ]


def _section(text: str, section: HelpSection) -> Jump:
    """Return the link to a section of help, with the line that holds a text or its first word."""
    plain = " ".join(_MARKUP.sub(lambda match: match[1] or " ", section.text).split())
    folded, (first, *_) = plain.casefold(), text.casefold().split()
    at = max(0, folded.find(text.casefold()) if text.casefold() in folded else folded.find(first))
    begin, end = max(0, at - _AROUND), at + len(text) + _AROUND
    line = plain[begin:end]
    line = f"… {line.partition(' ')[2]}" if begin else line
    line = f"{line.rpartition(' ')[0]} …" if end < len(plain) else line
    name = section.heading or section.page
    return Jump("help", name, section.address, section.page if name != section.page else None, line)


MANUAL = Manual(
    links=[NavigationItem("help", "/help", "Help"), NavigationItem("docs", "/docs", "REST API")],
    address=address,
    find=find,
)

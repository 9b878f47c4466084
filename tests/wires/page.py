"""The tables of docs/reference/wires.md, written from the kept facts and the proxy's routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.reference_pages import table
from tests.wires import facts, private
from tests.wires.facts import Facts
from tests.wires.reading import read_as

PAGE = "docs/reference/wires.md"
UNREAD = "**no dialect**"


def generated() -> dict[str, str]:
    """Return the page's generated parts: ``file#marker`` → Markdown."""
    kept = list(facts.kept().values())
    sdks = [each for each in kept if "failures" in each]
    clients = [(f"{title(each)}, {way}", each) for each in sdks for way in each["failures"]]
    return {
        f"{PAGE}#paths": table(("seen", "path", "asked for", "read as", "taken"), paths(kept)),
        f"{PAGE}#unread": table(("SDK", "paths that no dialect reads"), unread(sdks)),
        f"{PAGE}#private": table(("package", "where", "name", "what for"), private_names()),
        f"{PAGE}#failures": table(("failure", *(name for name, _ in clients)), failures(sdks)),
    }


def title(each: Facts) -> str:
    return f"{each['name']} {each['version']}"


def paths(kept: Iterable[Facts]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each request line of an SDK or agent, of all ways that ask it."""
    for each in kept:
        ways: dict[str, list[str]] = {}
        for way, one in each["ways"].items():
            for line in one["asks"]:
                ways.setdefault(line, []).append(way if way != line else "an agent's turn")
        for line, names in ways.items():
            taken = sorted(
                {fact for n in names for fact in each["ways"].get(n, {}).get("reads", ())}
            )
            yield (
                f"{title(each)}, {each['seen']}", f"`{line}`", "; ".join(names),
                read_as(line) or UNREAD, ", ".join(taken) or "–",
            )  # fmt: skip


def unread(sdks: Iterable[Facts]) -> Iterator[tuple[str, ...]]:
    """Yield the paths that an SDK's source posts to and that are read by no dialect."""
    for each in sdks:
        lines = [path for path in each["offers"] if read_as(f"POST {path}") is None]
        yield title(each), ", ".join(f"`{path}`" for path in lines) or "–"


def failures(sdks: Iterable[Facts]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each failure, and for what holds of all, with a cell for each client."""
    found = [
        {**failed, "time-outs, s": each["timeouts_s"]}
        for each in sdks
        for failed in each["failures"].values()
    ]
    for kind in dict.fromkeys(kind for one in found for kind in one):
        yield _ROWS.get(kind, kind), *(_cell(one.get(kind)) for one in found)


def private_names() -> Iterator[tuple[str, ...]]:
    """Yield a row for each private name of a harness that an adapter uses."""
    for known in private.ADAPTERS.values():
        for place, purpose in known["names"].items():
            file, _, name = place.partition(": ")
            yield known["package"], f"`{file}`", f"`{name}`", purpose


_ROWS = {"reads": "error's fields", "retry_after_s": "`retry-after` obeyed, s"}


def _cell(value: object) -> str:
    return ", ".join(value) or "–" if isinstance(value, list) else str(value or "–")

"""What each SDK and agent was last seen to do: one TOML file each, and how two of them differ."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from tests.wires.reading import read_as

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("facts")
WIDTH = 100
Facts: TypeAlias = Mapping[str, Any]
NOTHING = "–"
_NOT_COMPARED = ("name", "version", "seen")


def kept(folder: Path = FOLDER) -> dict[str, Facts]:
    """Return the kept facts by name."""
    read = [tomllib.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.toml"))]
    return {str(facts["name"]): facts for facts in read}


def keep(facts: Facts, folder: Path = FOLDER) -> None:
    """Write the facts of one SDK or agent in place of the ones before."""
    file = folder / f"{facts['name'].lower().replace(' ', '-')}.toml"
    file.write_text(written(facts), encoding="utf-8")


def differences(before: Facts, now: Facts) -> list[str]:
    """Return a line for each fact that changed: ``sdk version: fact: what was → is``."""
    old, new = dict(_flat(before)), dict(_flat(now))
    lines = []
    for place in sorted(old.keys() | new.keys()):
        was, is_ = old.get(place, []), new.get(place, [])
        gone, come = ([one for one in a if one not in b] for a, b in ((was, is_), (is_, was)))
        if gone or come:
            left, right = (", ".join(_marked(place, each)) or NOTHING for each in (gone, come))
            lines.append(f"{now['name']} {now['version']}: {place}: {left} → {right}")
    return lines


def unread(facts: Facts) -> list[str]:
    """Return the request lines that no dialect reads, and what the proxy finds by their shape."""
    found: dict[str, list[str]] = {}
    for way in facts["ways"].values():
        for line in way["asks"]:
            if read_as(line) is None:
                found.setdefault(line, way.get("reads", []))
    return [f"{line}; by its shape: {', '.join(each) or 'nothing'}" for line, each in found.items()]


def _flat(facts: Facts, place: str = "") -> Iterator[tuple[str, list[str]]]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{place}{key}, ")
        elif place or key not in _NOT_COMPARED:
            yield f"{place}{key}", list(map(str, value if isinstance(value, list) else [value]))


def _marked(place: str, values: list[str]) -> list[str]:
    """Mark the paths that the proxy does not read."""
    if place.rpartition(", ")[2] not in ("asks", "offers"):
        return values
    lines = [one if " " in one else f"POST {one}" for one in values]
    return [one if read_as(one) else f"{one} (unread)" for one in lines]


# --- TOML ----------------------------------------------------------------------------------


def written(facts: Facts) -> str:
    """Return facts as TOML: texts, numbers, lists of texts, and tables of these."""
    return "\n".join(_table(facts, ())).lstrip("\n") + "\n"


def _table(table: Facts, path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    own = {key: value for key, value in table.items() if key not in inner}
    if own and path:
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in own.items():
        yield _line(_key(key), value)
    for key, value in inner.items():
        yield from _table(value, (*path, key))


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def _line(key: str, value: Any) -> str:
    if not isinstance(value, list):
        return f"{key} = {json.dumps(value, ensure_ascii=False)}"
    texts = [json.dumps(one, ensure_ascii=False) for one in value]
    whole = f"{key} = [{', '.join(texts)}]"
    if len(whole) <= WIDTH:
        return whole
    rows = [""]
    for text in texts:
        if rows[-1] and len(rows[-1]) + len(text) + 4 > WIDTH:
            rows.append("")
        rows[-1] += f"{' ' if rows[-1] else '  '}{text},"
    return "\n".join([f"{key} = [", *rows, "]"])

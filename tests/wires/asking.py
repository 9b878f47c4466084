"""Ask a recorder with one SDK in all its ways: ``python asking.py SDK URL`` prints JSON.

Run by the Python of any environment that has the SDK: it imports nothing else that is not Python's.
Each way asks below a path of its own, by which the recorder knows what a request belongs to.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from importlib import metadata
from pathlib import Path
from typing import Any

WAYS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("ways.toml").read_text("utf-8"))
SDKS = tuple(name for name in WAYS if name != "shared")
FAILURES = (
    *("400", "401", "403", "404", "408", "409", "413", "422", "429", "500", "503", "529"),
    *("cut", "in a stream", "waits 10", "waits 50", "waits 100", "waits 300", "late"),
)  # statuses; an end of the connection, an error event, seconds of a `retry-after`, no answer
MARK = "said-by-the-recorder:"  # before the place that each text of a failing answer names
LATE_S = 0.2
_SHARED = {**WAYS["shared"], "file": ("b.jsonl", b"{}\n")}


def main(name: str, url: str) -> dict[str, Any]:
    """Let an SDK ask in each way, fail in each way, and say what it offers."""
    sdk, types = WAYS[name], dict[str, set[str]]()
    ways = {way: _asked(name, way, url, types) for way in sdk["ways"]}
    with _Clock() as clock:
        failures = {way: dict(_failures(name, way, url, clock)) for way in sdk["failing"]}
    return {
        "version": metadata.version(name),
        "ways": ways,
        "types": {kind: sorted(fields) for kind, fields in sorted(types.items())},
        "failures": failures,
        "timeout": clock.timeout,
        "offers": sorted(set(_offers(name))),
    }


def segment(way: str, failure: str = "") -> str:
    """Return the segment of a path that tells a way, and how it is to fail."""
    return f"{way}.{failure}".strip(".").replace(", ", ".").replace(" ", "-")


def _asked(name: str, way: str, url: str, types: dict[str, set[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {"types": [], "answers": []}
    try:
        for answer in _answers(name, way, f"{url}/~{segment(way)}"):
            if type(answer).__name__ not in found["types"]:
                found["types"].append(type(answer).__name__)
            found["answers"].append(declared(answer, types))
    except Exception as error:  # a way that is gone is a difference like another
        found["fails"] = _named(error)
    return found


def _failures(name: str, way: str, url: str, clock: _Clock) -> Iterator[tuple[str, dict[str, Any]]]:
    """Let a way fail; say what was raised, which of its fields were read, which wait was obeyed."""
    for failure in FAILURES:
        asked = f"{way}, streamed" if failure == "in a stream" else way
        clock.late = failure == "late"
        clock.slept.clear()
        found: dict[str, Any] = {"raises": "nothing", "reads": []}
        try:
            list(_answers(name, asked, f"{url}/~{segment(way, failure)}"))
        except Exception as error:
            found = {"raises": _named(error), "reads": sorted(_of_answer(error))}
        waited = round(clock.slept[0]) if clock.slept else 0
        yield failure, {**found, "obeyed": failure == f"waits {waited}"}


def _answers(name: str, way: str, url: str) -> Iterator[Any]:
    """Make the calls of a way, and yield each answer or event."""
    arguments = _filled(WAYS[name]["client"], url, None)
    module, _, kind = arguments.pop("of").rpartition(".")
    client = getattr(importlib.import_module(module), kind)(**arguments)
    last: Any = None
    for call, given in WAYS[name]["ways"][way]:
        answer = reduce(getattr, call.split("."), client)(**_filled(given, url, last))
        with contextlib.ExitStack() as opened:
            if hasattr(answer, "__enter__") and not hasattr(answer, "__iter__"):
                answer = opened.enter_context(answer)
            for last in _objects(answer):
                yield last


def _filled(value: Any, url: str, last: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, url, last) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, url, last) for each in value]
    if isinstance(value, str) and value[:1] in ("@", "$"):
        shared = value[0] == "@"
        return _filled(_SHARED[value[1:]], url, last) if shared else getattr(last, value[1:])
    return value.replace("URL", url) if isinstance(value, str) else value


def _objects(answer: Any) -> Iterable[Any]:
    """Return the answer as the only one, or the events of a stream."""
    if hasattr(type(answer), "model_fields"):
        return [answer]
    return answer if hasattr(answer, "__iter__") else []


# --- answers and errors, as the SDK's types have them --------------------------------------


def declared(value: Any, types: dict[str, set[str]]) -> Any:
    """Return as JSON what the types of an object declare, and add their fields to ``types``."""
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        names = {name: _on_the_wire(name, field) for name, field in fields.items()}
        types.setdefault(type(value).__name__, set()).update(names.values())
        given = [name for name in names if name in value.model_fields_set]
        return {names[name]: declared(getattr(value, name), types) for name in given}
    if isinstance(value, Mapping):
        return {str(key): declared(each, types) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [declared(each, types) for each in value]
    value = getattr(value, "value", value)  # of an enum
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _on_the_wire(name: str, field: Any) -> str:
    aliases = [each.alias for each in field.metadata if getattr(each, "alias", None)]
    return str(next(iter([*aliases, field.serialization_alias, field.alias]), None) or name)


def _of_answer(error: Exception) -> Iterator[str]:
    """Yield the fields of an error that hold a text of the answer, and the text's place."""
    for name in dir(error):
        if not name.startswith("_") and name != "args":
            with contextlib.suppress(Exception):
                value = getattr(error, name)
                if isinstance(value, str) and value.startswith(MARK):
                    yield f"{name} = {value.removeprefix(MARK)}"
                elif isinstance(value, str | dict) and MARK in str(value):
                    yield name


def _named(error: Exception) -> str:
    return f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"


class _Clock:
    """Notes the sleeps of a client and the time-outs of its HTTP library; shortens both."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.timeout: dict[str, float | None] = {}
        self.late = False

    def __enter__(self) -> _Clock:
        setattr(time, "sleep", self.slept.append)  # noqa: B010
        for name in ("httpx", "httpx2"):
            with contextlib.suppress(ImportError):
                self._watch(importlib.import_module(name))
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it as it is: the process ends."""

    def _watch(self, library: Any) -> None:
        send = library.Client.send

        def watched(client: Any, request: Any, **options: Any) -> Any:
            self.timeout = self.timeout or dict(request.extensions.get("timeout", {}))
            if self.late:
                request.extensions["timeout"] = dict.fromkeys(self.timeout, LATE_S)
            return send(client, request, **options)

        library.Client.send = watched


# --- paths that an SDK's source posts to ---------------------------------------------------

_PATH = re.compile(r"/?(?:[\w{}-]|\.(?!\w+$))+(?:[/:][\w{}.:-]+)*(?:\?[\w=&]+)?")
_MEDIA = re.compile(r"(?:application|multipart|text|audio|image)/")


def _offers(name: str) -> Iterator[str]:
    """Yield each path in a function that posts, found in the source of a distribution."""
    within = WAYS[name]["client"]["of"].rpartition(".")[0].replace(".", "/")
    for file in metadata.files(name) or ():
        if file.suffix == ".py" and file.is_relative_to(within) and "tests" not in file.parts:
            for node in ast.walk(ast.parse(Path(str(file.locate())).read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield from _posted(node)


def _posted(function: ast.FunctionDef) -> Iterator[str]:
    inside = list(ast.walk(function))
    texts = [n.value for n in inside if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    called = {n.attr for n in inside if isinstance(n, ast.Attribute)}
    if "post" in map(str.lower, texts) or called & {"post", "_post"}:
        for text in texts:
            is_path = "/" in text or re.search(r"\}:\w|^v\d+\w*:", text)
            if is_path and _PATH.fullmatch(text) and not _MEDIA.match(text):
                yield text.partition("?")[0]


if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)

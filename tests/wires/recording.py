"""Record one SDK or agent: let it ask the recorder, and say what it did as facts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.provider import Answer, Provider, Request
from tests.wires import recorder
from tests.wires.asking import WAYS, segment
from tests.wires.reading import answers_are_sought, payloads, taken

ASKING = Path(__file__).with_name("asking.py")
PATIENCE_S = 300
# Families of paths that call no model and begin nothing that does: accounts, keys, stores, logs;
# and ends of Bedrock's, which are put together elsewhere.
_ADMINISTRATION = re.compile(
    r"(?:^|/)(?:organizations?|projects|observability|compliance|webhooks?\w*|vaults|vector_stores|users?"
    r"|user_profiles|tunnels|memory_stores|service-accounts|libraries|fine_tuning|workflows|skills"
    r"|containers|connectors|certificates|credentials|context|environments|auth_tokens|tuningJobs"
    r"|uploads?|file_\w+|evals|tags|webhook_endpoints|invoke\S*)(?:/|:|$)"
)


class RecordingError(Exception):
    """What an SDK said instead of a recording."""


def sdk(name: str, python: str, day: str) -> dict[str, Any]:
    """Return the facts of the SDK that a Python has.

    Raises:
        RecordingError: it could not be asked at all.
    """
    clean = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    with Provider(recorder.answer) as provider:
        command = (python, "-P", str(ASKING), name, provider.url)
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, check=True, env=clean, timeout=PATIENCE_S
            )
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", "") or str(error)).strip()
            raise RecordingError(f"{name} cannot be asked: {said.splitlines()[-1]}") from error
        requests = list(provider.requests)
    return facts(name, json.loads(run.stdout), requests, day)


def facts(
    name: str, said: Mapping[str, Any], requests: Sequence[Request], day: str
) -> dict[str, Any]:
    """Return the facts in what an SDK said and in what it asked."""
    noted = recorder.noted(requests)
    asked = {way: noted.get(segment(way), _NOTHING) for way in WAYS[name]["ways"]}
    common = set.intersection(*(set(one["headers"]) for one in asked.values() if one["asks"]))
    tries = Counter(recorder.split(request)[0] for request in requests)
    return {
        "name": name,
        "version": said["version"],
        "seen": day,
        "headers": sorted(common),
        "timeouts_s": [f"{what} {_plain(s)}" for what, s in said["timeout"].items()],
        "offers": [each for each in said["offers"] if not _ADMINISTRATION.search(each)],
        "failures": {
            way: _failures(way, failures, tries) for way, failures in said["failures"].items()
        },
        "ways": {
            way: _way(one, common, said["ways"][way], _answers(requests, segment(way)))
            for way, one in asked.items()
        },
        "types": said["types"],
    }


_NOTHING: Mapping[str, list[str]] = {"asks": [], "headers": [], "body": []}


def _failures(way: str, failures: Mapping[str, Any], tries: Mapping[str, int]) -> dict[str, Any]:
    """Return what each failure raises and after how many tries, and what is read of an answer."""
    reads = sorted({field for failure in failures.values() for field in failure["reads"]})
    obeyed = [
        kind.removeprefix("waits ") for kind, failure in failures.items() if failure["obeyed"]
    ]
    found: dict[str, Any] = {"reads": reads, "retry_after_s": obeyed}
    for kind, failure in failures.items():
        if not kind.startswith("waits"):
            count = tries[segment(way, kind)]
            found[kind] = f"{failure['raises']}, {count} {'try' if count == 1 else 'tries'}"
    return found


def _way(
    one: Mapping[str, list[str]], common: set[str], said: Mapping[str, Any], answers: list[Any]
) -> dict[str, Any]:
    way: dict[str, Any] = {"asks": one["asks"]}
    if more := [each for each in one["headers"] if each not in common]:
        way["headers"] = more
    way["body"] = one["body"]
    way["answers"] = said["types"]
    line = next(iter(one["asks"]), "")
    if answers_are_sought(line):
        way["reads"] = taken(line, said["answers"])
        if lost := [each for each in taken(line, answers) if each not in way["reads"]]:
            way["not_in_types"] = lost
    return way | ({"fails": said["fails"]} if "fails" in said else {})


def _answers(requests: Sequence[Request], way: str) -> list[Any]:
    played = [recorder.answer(one) for one in requests if recorder.split(one)[0] == way]
    return [each for one in played if isinstance(one, Answer) for each in payloads(one)]


def _plain(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g}"

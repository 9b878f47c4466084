"""The wait for a first byte where the proxy asks references, beside a service that asks none.

``python -m benchmarks.references`` starts both on one provider. Calls go to one and the other in
turn, so that whatever else the machine does strikes both. Every fiftieth round an untrusted agent's
call fails on a lane of its own, and the service that asks has a series to ask beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service

_FAIL_EVERY = 50
_ROUNDS = 3000
_MESSAGES = [{"role": "user", "content": "Is the zero true?"}]


@dataclass(slots=True)
class _Asked:
    """One service, an agent's connection to it, and the seconds of its first bytes."""

    service: Service
    connection: http.client.HTTPConnection
    answered: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)

    def call(self, rollout: str, model: str) -> float:
        """Make one call; returns the seconds to its first byte."""
        body = json.dumps({"model": model, "messages": _MESSAGES, "stream": True})
        path = f"{urlsplit(self.service.base(rollout, 'openai')).path}/v1/chat/completions"
        began = time.perf_counter()
        self.connection.request("POST", path, body, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        answer.read(1)
        took = time.perf_counter() - began
        answer.read()
        return took

    def series(self) -> int:
        """Count the series that were asked."""
        with closing(sqlite3.connect(f"file:{self.service.database}?mode=ro", uri=True)) as file:
            query = "SELECT count(*) FROM reference_series WHERE not_run IS NULL"
            return int(file.execute(query).fetchone()[0])


def _play(request: Request) -> Answer:
    """Fail an agent's calls to a model of that name; answer others, and the proxy's questions."""
    question = b"Reply with the word ready." in request.body
    if b'"sick-' in request.body and not question:
        return answers.BAD_GATEWAY
    return answers.healthy(request)


def _services(home: Path, provider: str, stack: ExitStack) -> Iterator[_Asked]:
    for name, asks in (("with", "true"), ("without", "false")):
        folder = home / name
        folder.mkdir()
        settings = {"AGENTS": "untrusted", "KEY_OPENAI": "sk-operator", "REFERENCE_CALLS": asks}
        service = stack.enter_context(Service(folder, provider, **settings))
        at = urlsplit(service.url)
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
        service.register(id="well", model="gpt-5", upstream="openai")
        yield _Asked(service, stack.enter_context(closing(connection)))


def measure(rounds: int) -> dict[str, Any]:
    """Return the milliseconds to first bytes with and without references, and their ratios.

    Arguments:
        rounds: calls to each service; a hundred or more.
    """
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        provider = stack.enter_context(Provider(_play))
        both = list(_services(Path(folder), provider.url, stack))
        for number in range(rounds):
            fails = number % _FAIL_EVERY == 0
            for each in random.sample(both, len(both)):
                if fails:
                    names = {"id": f"sick-{number}", "model": f"sick-{number}"}
                    each.service.register(upstream="openai", **names)
                    each.failed.append(each.call(names["id"], names["model"]))
                each.answered.append(each.call("well", "gpt-5"))
        asking, silent = both
        found: dict[str, Any] = {
            "rounds": rounds,
            "series": asking.series(),
            "series_without": silent.series(),
        }
        # Of failed calls there are too few for a 99th percentile.
        for kind, hundredth in (("answered", 50), ("answered", 99), ("failed", 50)):
            ms = [_quantile(getattr(each, kind), hundredth) * 1000 for each in both]
            found[f"{kind}_p{hundredth}_ms"] = [round(value, 3) for value in ms]
            found[f"{kind}_p{hundredth}_ratio"] = round(ms[0] / ms[1], 3)
    return found


def _quantile(values: list[float], hundredth: int) -> float:
    return statistics.quantiles(values, n=100)[hundredth - 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    print(json.dumps(measure(parser.parse_args().rounds), indent=2))

"""Every labelled real answer through the running proxy: how many were read right.

It prints the figures (`pytest -s tests/journeys/test_corpus.py`) and skips, saying so, where
there is no corpus.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.corpus_score import (
    USAGE_FIELDS,
    Labelled,
    corpus_folder,
    labelled,
    path_of,
    usage_headers,
    usage_rows,
)
from tests.fakes.provider import Answer, Provider
from tests.journeys.service import Service

_HTTP = httpx.Client(timeout=60)
SHARES = (16, pytest.param(1, marks=pytest.mark.slow))  # one row of so many


@pytest.fixture(scope="module")
def corpus() -> Path:
    folder = corpus_folder()
    if folder is None:
        pytest.skip("no corpus of labelled answers lies beside the project (TRUEZERO_CORPUS)")
    return folder


@pytest.fixture(scope="module")
def usages(corpus: Path) -> list[dict[str, Any]]:
    return usage_rows(corpus)


@pytest.fixture(scope="module")
def errors(corpus: Path) -> list[Labelled]:
    return labelled(corpus)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture(scope="module")
def service(
    provider: Provider,
    errors: list[Labelled],
    usages: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    names = {row.provider for row in errors} | {row["provider"] for row in usages}
    upstreams = {f"UPSTREAM_{name.upper().replace('-', '_')}": provider.url for name in names}
    with Service(tmp_path_factory.mktemp("corpus"), provider.url, **upstreams) as running:
        yield running


@pytest.mark.parametrize("one_of", SHARES)
def test_causes_through_the_running_proxy(
    service: Service,
    provider: Provider,
    errors: list[Labelled],
    capsys: pytest.CaptureFixture[str],
    one_of: int,
) -> None:
    right = transient = 0
    errors = errors[::one_of]
    misses = []
    for number, row in enumerate(errors):
        headers = tuple((n.decode(), v.decode("latin-1")) for n, v in row.headers)
        call = _call(
            service, provider, f"error-{one_of}-{number}", row.provider, path_of(row),
            Answer(status=row.status, headers=headers, body=(row.body,)),
            "GET" if row.api == "models.list" else "POST",
        )  # fmt: skip
        if not row.doubt and call["subcategory"] != row.category:
            misses.append(f"{row.id}: {row.category}, got {call['subcategory']}")
        right += row.doubt or call["subcategory"] == row.category
        transient += row.doubt or call["transient"] == row.transient
    with capsys.disabled():
        sys.stdout.write(
            f"\nthrough the proxy: {right} of {len(errors)} causes right, "
            f"{transient} of {len(errors)} transient right\n"
            + "".join(f"  {miss}\n" for miss in misses)
        )  # fmt: skip
    assert right / len(errors) >= 0.98
    assert transient / len(errors) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("one_of", SHARES)
def test_usage_through_the_running_proxy(
    service: Service,
    provider: Provider,
    usages: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    one_of: int,
) -> None:
    right = whole = 0
    usages = usages[::one_of]
    for number, row in enumerate(usages):
        binary = row["body_encoding"] == "base64"
        body = base64.b64decode(row["body"]) if binary else row["body"].encode()
        headers = tuple((n.decode(), v.decode()) for n, v in usage_headers(row))
        path = quote("/" + row["path"].lstrip("/"), safe="/?&=%:.~$;,@+-_")
        answer = Answer(headers=headers, body=(body,))
        call = _call(
            service, provider, f"usage-{one_of}-{number}", row["provider"], path, answer, "POST"
        )
        matches = [call[name] == row["expected"][name] for name in USAGE_FIELDS]
        right += sum(matches)
        whole += all(matches)
    fields = len(usages) * len(USAGE_FIELDS)
    with capsys.disabled():
        sys.stdout.write(
            f"\nthrough the proxy: {right} of {fields} usage fields right, "
            f"{whole} of {len(usages)} usages wholly\n"
        )  # fmt: skip
    assert right / fields >= 0.995


def _call(
    service: Service, provider: Provider, rollout: str, upstream: str, path: str, answer: Answer,
    method: str,
) -> dict[str, Any]:  # fmt: skip
    """Relay one answer, unchanged, and return what was recorded of it."""
    provider.plays(answer)
    asked = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    body = None if method == "GET" else json.dumps(asked).encode()
    url = service.base(rollout, upstream) + path
    own_key = {"authorization": "Bearer sk-corpus"}  # so that nobody signs in its place
    with _HTTP.stream(method, url, content=body, headers=own_key) as got:
        assert b"".join(got.iter_raw()) == answer.content
    (call,) = service.exchanges(rollout)
    return call

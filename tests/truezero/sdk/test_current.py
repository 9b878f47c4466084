"""The current rollout over threads and tasks, and what the hook stamps on whose requests."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import pytest

from truezero.sdk.current import (
    Identity,
    carry,
    current,
    headers,
    httpx_hook,
    is_service,
    key_header,
)

SERVICE = "http://proxy.example:8383"


def rollout(name: str, base: str = SERVICE) -> Identity:
    urls = {"openai": f"{base}/r/{name}/openai/v1"}
    named: Identity = SimpleNamespace(id=name, key=f"tz-{name}", base_urls=urls)
    return named


def stamped(url: str) -> str | None:
    request = httpx.Request("POST", url)
    httpx_hook(request)
    key: str | None = request.headers.get("x-truezero-key")
    assert headers(url) == ({} if key is None else {"x-truezero-key": key})
    return key


@pytest.mark.parametrize(
    ("base", "url", "named"),
    [
        (SERVICE, f"{SERVICE}/openai/v1/chat/completions", True),
        (SERVICE, "https://proxy.example:8383/openai/v1", False),
        (SERVICE, "http://proxy.example:8384/openai/v1", False),
        (SERVICE, "https://api.openai.com/v1/chat/completions", False),
        (SERVICE, "http://proxy.example.evil.example:8383/v1", False),
        ("https://proxy.example", "https://proxy.example:443/openai/v1", True),
        ("http://127.0.0.1:9000", "http://localhost:9000/openai/v1", True),
        ("http://127.0.0.1:9000", "http://[::1]:9000/openai/v1", True),
        (SERVICE, "http://10.0.0.7:8383/openai/v1", True),  # TRUEZERO_URL
    ],
)
def test_only_the_service_is_shown_a_rollouts_key(
    base: str, url: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://10.0.0.7:8383")
    assert stamped(url) is None, "outside a rollout nothing is stamped"
    token = current.set(rollout("r1", base))
    try:
        assert stamped(url) == ("tz-r1" if named else None)
    finally:
        current.reset(token)


def test_a_redirect_to_another_server_is_not_shown_the_key() -> None:
    seen: dict[str, str | None] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        seen[request.url.host] = request.headers.get("x-truezero-key")
        moved = {"location": "https://elsewhere.example/v1"}
        return httpx.Response(307 if request.url.host == "proxy.example" else 200, headers=moved)

    with httpx.Client(
        transport=httpx.MockTransport(answer),
        event_hooks={"request": [httpx_hook]},
        follow_redirects=True,
    ) as client:
        token = current.set(rollout("r1"))
        try:
            client.get(f"{SERVICE}/openai/v1")
        finally:
            current.reset(token)
    assert seen == {"proxy.example": "tz-r1", "elsewhere.example": None}


@pytest.mark.parametrize("url", ["", "elsewhere", "http://[", "http://h:port", "mailto:a@b"])
def test_what_is_no_address_is_not_the_service(url: str) -> None:
    assert not is_service(url, rollout("r1"), service=url or SERVICE)
    assert key_header(url, rollout("r1")) == {}


def test_one_hook_serves_blocking_and_async_clients() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("x-truezero-key"))
        return httpx.Response(200)

    async def ask(client: httpx.AsyncClient, name: str) -> None:
        current.set(rollout(name))
        await asyncio.sleep(0)
        await client.get(f"{SERVICE}/{name}")

    async def both() -> None:
        async with httpx.AsyncClient(
            transport=httpx.MockTransport(answer), event_hooks={"request": [httpx_hook]}
        ) as client:
            await asyncio.gather(ask(client, "a"), ask(client, "b"))
        assert current.get() is None, "a task's rollout stays in the task"

    with httpx.Client(
        transport=httpx.MockTransport(answer), event_hooks={"request": [httpx_hook]}
    ) as client:
        client.get(SERVICE)
    asyncio.run(both())
    assert seen == [None, "tz-a", "tz-b"]


def test_a_rollout_crosses_threads_as_documented() -> None:
    def name() -> str | None:
        known = current.get()
        return known.id if known else None

    async def elsewhere() -> str | None:
        return await asyncio.to_thread(name)

    token = current.set(rollout("r1"))
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(name).result() is None
            assert pool.submit(contextvars.copy_context().run, name).result() == "r1"
            assert pool.submit(carry(name)).result() == "r1"
            assert pool.submit(name).result() is None, "a thread is left as it was"
        assert asyncio.run(elsewhere()) == "r1"
    finally:
        current.reset(token)


def test_a_carried_function_runs_in_many_threads_at_once() -> None:
    both = threading.Barrier(2, timeout=60)

    def name(prefix: str, *, end: str) -> str:
        both.wait()
        known = current.get()
        return f"{prefix}{known and known.id}{end}"

    with ThreadPoolExecutor(2) as pool:
        pending = []
        for number in ("r1", "r2"):
            token = current.set(rollout(number))
            pending.append(pool.submit(carry(name), "<", end=">"))
            current.reset(token)
        assert [one.result() for one in pending] == ["<r1>", "<r2>"]
    assert carry(name).__name__ == "name"


def test_a_function_that_fails_leaves_its_threads_rollout() -> None:
    token = current.set(rollout("r1"))
    failing = carry(lambda: 1 / 0)
    current.reset(token)
    with pytest.raises(ZeroDivisionError):
        failing()
    assert current.get() is None

"""Each provider asked for its models in its own way."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.provider import Provider
from tests.proxy.api.test_routes import serving
from tests.truezero.runner.doctor.looking import lists, look
from truezero import Client
from truezero.runner.doctor import Wanted


def test_each_provider_is_asked_in_its_own_way(tmp_path: Path) -> None:
    with Provider(lists) as provider:
        upstreams = {f"UPSTREAM_{name}": provider.url for name in ("ANTHROPIC", "GEMINI", "GROQ")}
        with (
            serving(tmp_path, **upstreams) as service,
            Client(str(service.http.base_url)) as client,
        ):
            keys = ("ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY")
            environment = dict.fromkeys(keys, "sk-alive")
            wanted = Wanted(models=(("gemini", "gemini-3-pro"), ("groq", "gpt-5")))
            found = look(client, environment, wanted)
    assert {name for name, check in found.items() if check.health == "failed"} == set()
    assert {"anthropic key", "gemini key", "groq key", "gemini/gemini-3-pro", "groq/gpt-5"} <= set(
        found
    )
    asked = {request.target: request for request in provider.requests}
    assert set(asked) == {"/v1/models?limit=1000", "/v1beta/models?pageSize=1000", "/v1/models"}
    anthropic = asked["/v1/models?limit=1000"]
    assert anthropic.header("x-api-key") == "sk-alive"
    assert anthropic.header("anthropic-version") == "2023-06-01"
    assert asked["/v1beta/models?pageSize=1000"].header("x-goog-api-key") == "sk-alive"

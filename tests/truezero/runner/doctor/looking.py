"""A provider whose keys and models are looked at, and the checks by their names."""

from __future__ import annotations

from tests.fakes import answers
from tests.fakes.provider import Answer, Request
from truezero import Client
from truezero.runner.doctor import DoctorCheck, Wanted, examine

OPENAI = {"OPENAI_API_KEY": "sk-alive"}
SECRETS = ("sk-alive", "sk-dead", "sk-held")


def lists(request: Request) -> Answer:
    """A provider of three dialects that knows two keys and a few models, and lists them."""
    shown = [request.header(name) or "" for name in ("authorization", "x-api-key")]
    key = (request.header("x-goog-api-key") or "".join(shown)).removeprefix("Bearer ")
    if key not in ("sk-alive", "sk-held"):
        return answers.whole({"error": {"message": "no such key as " + key}}, 401)
    return listed(request)


def listed(request: Request) -> Answer:
    if request.method == "POST":
        return answers.whole({"error": {"code": "insufficient_quota", "message": "x"}}, 429)
    if request.path.endswith("/models"):
        if request.path.startswith("/v1beta"):
            return answers.whole({"models": [{"name": "models/gemini-3-pro"}]})
        return answers.whole({"data": [{"id": "gpt-5"}, {"id": "gpt-5-mini-2026"}]})
    if request.path.endswith("/models/an-alias"):
        return answers.whole({"id": "gpt-5"})
    return answers.whole({"error": {"message": "no such model"}}, 404)


def look(
    client: Client, environment: dict[str, str] | None = None, wanted: Wanted | None = None
) -> dict[str, DoctorCheck]:
    found = list(examine(client, wanted or Wanted(), environment or {}))
    for check in found:
        assert not any(secret in check.told for secret in SECRETS), check
    return {check.name: check for check in found}

"""An agent on Bedrock without an AWS account: the service signs, and the model is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.journeys.service import Service

SAID = {
    "output": {"message": {"role": "assistant", "content": [{"text": "zero"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
    "metrics": {"latencyMs": 5},
}
ASK = [{"role": "user", "content": [{"text": "hi"}]}]


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


def client(base_url: str, retries: int = 0) -> Any:
    """Amazon's own client as the sandbox has it: any key at all."""
    from botocore.config import Config
    from botocore.session import Session

    return Session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=base_url,
        aws_access_key_id="AKIDSANDBOX",
        aws_secret_access_key="nothing",
        config=Config(retries={"max_attempts": retries}),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_account")
def test_the_service_signs_for_an_agent_that_has_no_account_and_refuses_it_in_amazons_words(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.plays(answers.whole(SAID))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSERVICE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-service-secret")
    with Service(tmp_path, provider.url, UPSTREAM_BEDROCK=provider.url) as service:
        made = service.register(id="b1", limits={"calls": 1})
        amazons = client(made["base_urls"]["bedrock"], retries=3)
        said = amazons.converse(modelId="m:0", messages=ASK)
        with pytest.raises(amazons.exceptions.ClientError, match="limit of 1 call was spent"):
            amazons.converse(modelId="m:0", messages=ASK)
        (exchange,) = service.exchanges("b1")
        told = service.log() + service.http.get("/metrics").text
    assert said["output"]["message"]["content"] == [{"text": "zero"}]
    (request,) = provider.requests
    authorization = request.header("authorization") or ""
    assert authorization.startswith("AWS4-HMAC-SHA256 Credential=AKIDSERVICE/")
    assert "/eu-west-1/bedrock/aws4_request" in authorization
    assert (exchange["input_tokens"], exchange["output_tokens"]) == (7, 3)
    once = 'truezero_refusals_total{code="budget_exceeded",plane="agents"} 1.0'
    assert once in told, "none was a retry"
    kept = told.encode() + b"".join(file.read_bytes() for file in tmp_path.glob("journeys.db*"))
    assert b"the-service-secret" not in kept
    assert b"AKID" not in kept

"""The proxy's own credentials for Bedrock and Vertex: added, renewed, refused.

The signature is checked by a reading of AWS's description of our own, not by the signing library.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import httpx
import pytest

from classifier.records import Ending
from classifier.verdicts import Subcategory
from proxy.outbound import credentials
from proxy.outbound.credentials import AwsSigner, GoogleTokens, region_of, signers
from proxy.relay.context import CallLimits, Signer
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.upstreams import Auth, Upstream
from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Provider, Request, closed_port
from tests.fakes.relaying import KEYRING, Relaying, relaying

# AWS's own example credentials; they open nothing.
KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
CONVERSE = "/model/us.anthropic.claude-x%3A0/converse"
ASK = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
REGION = {"AWS_REGION": "eu-west-1"}

SAID = {
    "output": {"message": {"role": "assistant", "content": [{"text": "zero"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10},
    "metrics": {"latencyMs": 5},
}


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's credentials nor a metadata server's play a part."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "GCE_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", True)


@pytest.fixture
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(answers.whole(SAID)) as running:
        yield running


@pytest.fixture
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url, signers=signers(REGION, time.monotonic)) as running:
        yield running


# -- a reading of Signature Version 4 of our own -----------------------------------------------


def signature(request: Request, secret: str) -> str:
    """What the signature of a request ought to be.

    docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    scope, names = claimed(request)
    path, _, query = request.target.partition("?")
    lines = [
        request.method,
        quote(path, safe="/~"),
        "&".join(sorted(query.split("&"))) if query else "",
        *(f"{name}:{' '.join((request.header(name) or '').split())}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(request.body).hexdigest(),
    ]
    canonical = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    moment = request.header("x-amz-date") or ""
    text = "\n".join(["AWS4-HMAC-SHA256", moment, "/".join(scope), canonical])
    key = ("AWS4" + secret).encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def fields(request: Request) -> dict[str, str]:
    value = (request.header("authorization") or "").removeprefix("AWS4-HMAC-SHA256 ")
    return dict(part.strip().split("=", 1) for part in value.split(","))


def claimed(request: Request) -> tuple[list[str], list[str]]:
    """The scope (date, region, service, aws4_request) and the names of what was signed."""
    found = fields(request)
    return found["Credential"].split("/")[1:], found["SignedHeaders"].split(";")


def test_our_reading_of_the_signature_agrees_with_amazons_published_one() -> None:
    """The case get-vanilla of AWS's Signature Version 4 test suite."""
    signed = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    scope, names = "20150830/us-east-1/service/aws4_request", "SignedHeaders=host;x-amz-date"
    request = Request(
        method="GET",
        target="/",
        headers=(
            ("Host", "example.amazonaws.com"),
            ("X-Amz-Date", "20150830T123600Z"),
            (
                "Authorization",
                f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, {names}, Signature={signed}",
            ),
        ),
    )
    assert signature(request, SECRET) == fields(request)["Signature"]


def slowly(parts: int) -> Iterator[bytes]:
    for _ in range(parts):
        yield b"x" * 1000
        time.sleep(0.02)


# -- Bedrock -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_keys")
@pytest.mark.parametrize(
    "path",
    [
        CONVERSE,
        "/model/anthropic.claude-x:0/invoke",
        "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aprofile%2Fp/converse",
        CONVERSE + "?maxResults=5&a=b",
    ],
)
def test_a_call_without_a_key_is_signed_as_bedrock_checks_it(
    provider: Provider, relay: Relaying, path: str
) -> None:
    answer = caller.post(relay.base(upstream="bedrock") + path, json=ASK)
    assert answer.status_code == 200
    (seen,) = provider.requests
    assert fields(seen)["Signature"] == signature(seen, SECRET)
    scope, names = claimed(seen)
    assert scope[1:] == ["eu-west-1", "bedrock", "aws4_request"]
    assert {"host", "content-type", "x-amz-date"} <= set(names)
    assert seen.header("host") == provider.url.removeprefix("http://")
    assert seen.target == path


@pytest.mark.usefixtures("own_keys")
def test_a_real_client_signing_for_us_with_any_key_is_signed_anew_and_keeps_one_lane(
    provider: Provider, relay: Relaying
) -> None:
    kind = ("content-type", "application/vnd.amazon.eventstream")
    provider.plays(answers.whole(SAID), Answer(headers=(kind,), body=()))
    client = agent(relay, key="AKIDAGENT", secret="agents", token="agents-token")
    for call in (client.converse, client.converse_stream):
        call(modelId="us.anthropic.claude-x:0", messages=ASK["messages"])
        seen = provider.requests[-1]
        assert fields(seen)["Credential"].startswith(KEY_ID)
        assert fields(seen)["Signature"] == signature(seen, SECRET)
        assert seen.header("x-amz-security-token") is None
        assert [name.lower() for name, _ in seen.headers].count("x-amz-date") == 1
    one, two = relay.book.wait_for(2)
    assert one.key_digest == two.key_digest is not None


def agent(relay: Relaying, *, key: str, secret: str, token: str) -> Any:
    """A Bedrock client as an agent has it, pointed at the relay."""
    from botocore.config import Config
    from botocore.session import Session

    return Session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=relay.base(upstream="bedrock"),
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(retries={"max_attempts": 0}),
    )


@pytest.mark.usefixtures("own_keys")
def test_a_session_token_of_our_own_is_sent_and_signed(
    provider: Provider, relay: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "ours")
    caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK)
    (seen,) = provider.requests
    assert seen.header("x-amz-security-token") == "ours"
    assert "x-amz-security-token" in claimed(seen)[1]
    assert fields(seen)["Signature"] == signature(seen, SECRET)


@pytest.mark.usefixtures("own_keys")
def test_a_body_to_sign_has_a_limit_too(provider: Provider) -> None:
    with relaying(
        provider.url, signers=signers(REGION, time.monotonic), limits=CallLimits(body_bytes=5000)
    ) as relay:
        answer = caller.post(relay.base(upstream="bedrock") + CONVERSE, content=slowly(10))
    assert answer.headers["x-truezero-refusal"] == "body_too_large"
    assert provider.requests == []


@pytest.mark.usefixtures("own_keys")
def test_a_callers_own_bedrock_key_passes_through(provider: Provider, relay: Relaying) -> None:
    own = {"authorization": "Bearer bedrock-api-key-1"}
    caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK, headers=own)
    (seen,) = provider.requests
    assert seen.header("authorization") == "Bearer bedrock-api-key-1"
    assert seen.header("x-amz-date") is None


@pytest.mark.usefixtures("own_keys")
def test_a_minted_key_is_never_sent_and_the_call_signed(
    provider: Provider, relay: Relaying
) -> None:
    minted = {"authorization": f"Bearer {KEYRING.mint('r9')}"}
    caller.post(relay.url + "/bedrock" + CONVERSE, json=ASK, headers=minted)
    (seen,) = provider.requests
    assert fields(seen)["Signature"] == signature(seen, SECRET)
    assert relay.book.only.rollout_id == "r9"


def test_a_configured_bedrock_key_goes_before_credentials(provider: Provider) -> None:
    with relaying(
        provider.url,
        signers=signers(REGION, time.monotonic),
        real_keys={"bedrock": "bedrock-api-key-2"},
    ) as relay:
        stale = {
            "authorization": "AWS4-HMAC-SHA256 Credential=AKIDAGENT/d, Signature=1",
            "x-amz-date": "20260101T000000Z",
            "x-amz-security-token": "agents",
        }
        caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK, headers=stale)
    (seen,) = provider.requests
    assert seen.header("authorization") == "Bearer bedrock-api-key-2"
    assert seen.header("x-amz-date") is None
    assert seen.header("x-amz-security-token") is None


@pytest.mark.usefixtures("own_keys")
def test_other_upstreams_are_not_signed(provider: Provider, relay: Relaying) -> None:
    caller.post(relay.base() + "/v1/chat/completions", json=ASK)
    assert provider.requests[0].header("authorization") is None


@pytest.mark.parametrize(
    ("upstream", "needed"),
    [("bedrock", "AWS_ACCESS_KEY_ID"), ("vertex", "GOOGLE_APPLICATION_CREDENTIALS")],
)
def test_without_credentials_the_refusal_says_what_to_set(
    provider: Provider, relay: Relaying, upstream: str, needed: str
) -> None:
    answer = caller.post(relay.base(upstream=upstream) + CONVERSE, json=ASK)
    assert answer.status_code == 502
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_missing"
    assert answer.headers["x-should-retry"] == "false"
    assert needed in answer.json()["detail"]
    assert provider.requests == []
    exchange = relay.book.only
    assert answer.headers["x-truezero-exchange"] == exchange.id
    assert (exchange.ending, exchange.status) == (Ending.NEVER_CONNECTED, None)
    assert exchange.cause is not None
    assert exchange.cause.subcategory is Subcategory.AUTH
    assert not exchange.cause.transient


def test_a_profile_that_is_not_there_is_named_as_the_trouble(
    relay: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    answer = caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK)
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_missing"
    assert "AWS_PROFILE" in answer.json()["detail"]


@pytest.mark.usefixtures("own_keys")
def test_without_a_region_the_refusal_says_so(provider: Provider) -> None:
    with relaying(provider.url, signers=signers({}, time.monotonic)) as relay:
        answer = caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK)
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_missing"
    assert "AWS_REGION" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("upstream", "library", "extra"),
    [("bedrock", "botocore.exceptions", "aws"), ("vertex", "google.auth.exceptions", "google")],
)
def test_without_the_extra_the_refusal_says_what_to_install(
    relay: Relaying, monkeypatch: pytest.MonkeyPatch, upstream: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    answer = caller.post(relay.base(upstream=upstream) + CONVERSE, json=ASK)
    assert answer.status_code == 501
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_missing"
    assert f"truezero[{extra}]" in answer.json()["detail"]


def test_a_renewal_that_cannot_reach_aws_is_transient_and_logs_nothing_of_it(
    relay: Relaying,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    role = "arn:aws:iam::123456789012:role/r"
    profile = f"[profile far]\nrole_arn = {role}\nsource_profile = near\nregion = eu-west-1\n"
    near = f"[profile near]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "config").write_text(profile + near)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "far")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    answer = caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK)
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_unavailable"
    cause = relay.book.only.cause
    assert cause is not None
    assert cause.transient
    assert not [record for record in caplog.records if record.name.startswith("botocore")]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime.eu-central-2.amazonaws.com:443", "eu-central-2"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("vpce-0a1-b2.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2"),
        ("bedrock-runtime.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("127.0.0.1:9000", None),
        ("llm-gateway-1.example", None),
    ],
)
def test_the_region_is_read_from_the_host(host: str, region: str | None) -> None:
    assert region_of(host) == region


# -- looking for credentials -------------------------------------------------------------------


class Shelf:
    """Credentials that are there or not, and how often somebody looked."""

    def __init__(self, found: object = None) -> None:
        self.found = found
        self.looks = 0
        self.looked = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> Any:
        self.looks += 1
        self.looked.set()
        assert self.may_end.wait(caller.PATIENCE_S)
        return self.found


def sign(signer: Signer) -> Pairs:
    upstream = Upstream(name="bedrock", url="http://bedrock-runtime.eu-west-1.amazonaws.com")
    pairs = [(b"host", upstream.host)]
    return asyncio.run(
        signer.sign(upstream=upstream, method="POST", target=b"/", headers=pairs, body=b"")
    )


def test_that_there_are_none_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, now = Shelf(), [0.0]
    monkeypatch.setattr(credentials, "_aws_credentials", shelf)
    with ThreadPoolExecutor(1) as threads:
        signer = AwsSigner({}, threads, lambda: now[0])
        for at, looks in ((0.0, 1), (29.0, 1), (31.0, 2)):
            now[0] = at
            with pytest.raises(Refusal):
                sign(signer)
            assert shelf.looks == looks


def test_found_credentials_are_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = import_module("botocore.credentials").Credentials(KEY_ID, SECRET)
    shelf = Shelf(found)
    monkeypatch.setattr(credentials, "_aws_credentials", shelf)
    with ThreadPoolExecutor(1) as threads:
        signer = AwsSigner({}, threads, itertools.count(0, 1000).__next__)
        assert dict(sign(signer))[b"authorization"].startswith(b"AWS4-HMAC-SHA256")
        sign(signer)
    assert shelf.looks == 1


def available(signer: Signer) -> bool:
    return asyncio.run(signer.available())


def test_whether_aws_credentials_are_there_is_known_without_using_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expired = import_module("botocore.exceptions").CredentialRetrievalError
    found = import_module("botocore.credentials").Credentials(KEY_ID, SECRET)

    def fails() -> Any:
        raise expired(provider="sso", error_msg="expired")

    with ThreadPoolExecutor(1) as threads:
        for look, there in ((Shelf(), False), (Shelf(found), True), (fails, True)):
            monkeypatch.setattr(credentials, "_aws_credentials", look)
            assert available(AwsSigner({}, threads, lambda: 0.0)) is there
        monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
        assert not available(AwsSigner({}, threads, lambda: 0.0)), (
            "without the extra there are none"
        )


def test_whether_google_credentials_are_there_is_not_looked_for_with_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors, now, looks = import_module("google.auth.exceptions"), [0.0], [0]

    def none_found() -> Any:
        looks[0] += 1
        raise errors.DefaultCredentialsError

    def unreachable() -> Any:
        raise errors.TransportError

    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(credentials, "_google_credentials", none_found)
        tokens = GoogleTokens(threads, lambda: now[0])
        for at, expected in ((0.0, 1), (29.0, 1), (31.0, 2)):
            now[0] = at
            assert not available(tokens)
            assert looks == [expected]
        for look in (unreachable, Shelf("credentials")):
            monkeypatch.setattr(credentials, "_google_credentials", look)
            assert available(GoogleTokens(threads, lambda: 0.0))


@pytest.fixture
def slow_shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """A look-up for AWS credentials that takes until it is told to end."""
    shelf = Shelf()
    shelf.may_end.clear()
    monkeypatch.setattr(credentials, "_aws_credentials", shelf)
    yield shelf
    shelf.may_end.set()


def test_other_calls_go_on_while_credentials_are_looked_for(
    provider: Provider, slow_shelf: Shelf, relay: Relaying
) -> None:
    held: list[httpx.Response] = []
    url = relay.base(upstream="bedrock") + CONVERSE
    waiting = threading.Thread(target=lambda: held.append(caller.post(url, json=ASK)))
    waiting.start()
    assert slow_shelf.looked.wait(caller.PATIENCE_S)
    provider.plays(answers.chat())
    assert caller.post(relay.base() + "/v1/chat/completions", json=ASK).status_code == 200
    assert not held
    slow_shelf.may_end.set()
    waiting.join(caller.PATIENCE_S)
    assert held[0].headers["x-truezero-refusal"] == "upstream_credentials_missing"


@pytest.mark.usefixtures("slow_shelf")
def test_an_agent_that_leaves_during_the_look_up_is_noticed(relay: Relaying) -> None:
    with pytest.raises(httpx.ReadTimeout):
        caller.post(relay.base(upstream="bedrock") + CONVERSE, json=ASK, timeout=caller.LEAVES)
    assert relay.book.only.ending is Ending.LEFT_BY_AGENT


# -- Vertex ------------------------------------------------------------------------------------

GENERATE = "/v1/projects/p/locations/europe-west1/publishers/google/models/gemini-x:generateContent"


class TokenServer:
    """Google's token endpoint: hands out tokens one after another."""

    def __init__(self, lives_s: int = 3600) -> None:
        self.lives_s = lives_s
        self.asked: list[Request] = []

    def __call__(self, request: Request) -> Answer:
        self.asked.append(request)
        token = f"ya29.{len(self.asked)}"
        return answers.whole({"access_token": token, "expires_in": self.lives_s})


@pytest.fixture(scope="session")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("key") / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    subprocess.run([*command, "-out", str(file)], check=True, capture_output=True)
    return file.read_text()


@pytest.fixture
def account(private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    account = Account(private_key, tmp_path)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account.file))
    with account.endpoint:
        account.write(account.endpoint.url + "/token")
        yield account


class Account:
    """A service account of ours whose tokens come from a server on loopback."""

    def __init__(self, private_key: str, folder: Path) -> None:
        self.tokens = TokenServer()
        self.endpoint = Provider(self.tokens)
        self.file = folder / "account.json"
        self._private_key = private_key

    def write(self, token_uri: str) -> None:
        self.file.write_text(
            json.dumps(
                {
                    "type": "service_account",
                    "project_id": "p",
                    "private_key_id": "1",
                    "private_key": self._private_key,
                    "client_email": "proxy@p.iam.gserviceaccount.com",
                    "token_uri": token_uri,
                }
            )
        )


@pytest.mark.slow
def test_a_call_without_a_token_gets_the_services_own(
    provider: Provider, relay: Relaying, account: Account
) -> None:
    for _ in range(2):
        answer = caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK)
        assert answer.status_code == 200
    tokens = [request.header("authorization") for request in provider.requests]
    assert tokens == ["Bearer ya29.1"] * 2  # asked for once
    (asked,) = account.tokens.asked
    assert "jwt-bearer" in parse_qs(asked.body.decode())["grant_type"][0]
    assert provider.requests[0].body == answer.request.read()


@pytest.mark.usefixtures("account")
def test_a_callers_own_token_passes_through_and_a_minted_key_becomes_one(
    provider: Provider, relay: Relaying
) -> None:
    own, minted = {"authorization": "Bearer ya29.agents"}, {"x-goog-api-key": KEYRING.mint("r9")}
    caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK, headers=own)
    caller.post(relay.url + "/vertex" + GENERATE, json=ASK, headers=minted)
    tokens = [request.header("authorization") for request in provider.requests]
    assert tokens == ["Bearer ya29.agents", "Bearer ya29.1"]
    assert provider.requests[1].header("x-goog-api-key") is None


def test_a_token_about_to_expire_is_renewed(
    provider: Provider, relay: Relaying, account: Account
) -> None:
    account.tokens.lives_s = 60  # google-auth renews what has less than 3:45 minutes
    for _ in range(2):
        caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK)
    tokens = [request.header("authorization") for request in provider.requests]
    assert tokens == ["Bearer ya29.1", "Bearer ya29.2"]


@pytest.mark.usefixtures("account")
def test_a_token_that_is_there_costs_no_thread() -> None:
    threads = ThreadPoolExecutor(1)
    signer = GoogleTokens(threads, time.monotonic)
    first = sign(signer)
    threads.shutdown()
    assert sign(signer) == first


@pytest.mark.usefixtures("account")
def test_the_operators_quota_project_goes_before_the_callers(
    provider: Provider, relay: Relaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "ours")
    theirs = {"x-goog-user-project": "theirs"}
    caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK, headers=theirs)
    found = [v for n, v in provider.requests[0].headers if n.lower() == "x-goog-user-project"]
    assert found == ["ours"]


def test_many_first_calls_at_once_ask_for_one_token(
    provider: Provider, relay: Relaying, account: Account
) -> None:
    url = relay.base(upstream="vertex") + GENERATE
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: caller.post(url, json=ASK).status_code, range(12)))
    assert found == [200] * 12
    assert len(account.tokens.asked) == 1


def test_an_account_that_google_refuses_is_permanent_and_its_words_are_kept_from_all(
    relay: Relaying, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = {"error": "invalid_grant", "error_description": "Not a valid secret-sentence"}
    account.endpoint.plays(answers.whole(refusal, 400))
    answer = caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK)
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_missing"
    cause = relay.book.only.cause
    assert cause is not None
    assert (cause.subcategory, cause.transient) == (Subcategory.AUTH, False)
    assert "secret-sentence" not in answer.text + caplog.text + repr(relay.book.exchanges)


def test_a_token_server_out_of_reach_is_transient(relay: Relaying, account: Account) -> None:
    account.write(f"http://127.0.0.1:{closed_port()}/token")
    answer = caller.post(relay.base(upstream="vertex") + GENERATE, json=ASK)
    assert answer.headers["x-truezero-refusal"] == "upstream_credentials_unavailable"
    cause = relay.book.only.cause
    assert cause is not None
    assert (cause.subcategory, cause.transient) == (Subcategory.PROVIDER_ERROR, True)


def test_who_signs_is_known_before_anything_is_looked_for() -> None:
    found = signers({}, time.monotonic)
    assert set(found) == {Auth.AWS, Auth.GOOGLE}
    assert isinstance(found[Auth.AWS], AwsSigner)
    assert isinstance(found[Auth.GOOGLE], GoogleTokens)
    assert (found[Auth.AWS].whole_body, found[Auth.GOOGLE].whole_body) == (True, False)

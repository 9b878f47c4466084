"""For which upstreams the operator's keys go in, and what of a query does not go with them."""

from __future__ import annotations

import pytest

from proxy.routing.keys import KeyUse, OperatorKeys, without_keys
from proxy.routing.upstreams import Auth, Upstream, allow_list

UPSTREAMS = allow_list({"local": {"url": "http://llm.example", "auth": "none"}})


def test_whose_key_goes_with_a_call() -> None:
    static, signed = {"openai": "sk", "local": "sk"}, {Auth.AWS}
    rows = (
        ("openai", True, KeyUse.OPERATORS),
        ("openai", False, KeyUse.EITHER),
        ("bedrock", True, KeyUse.EITHER),  # the credentials may not be there
        ("bedrock", False, KeyUse.EITHER),
        ("vertex", True, KeyUse.CALLERS),
        ("anthropic", True, KeyUse.CALLERS),
        ("local", True, KeyUse.CALLERS),  # takes no key
    )
    for name, replace, use in rows:
        keys = OperatorKeys(static=static, signed=signed, replace=replace)
        assert keys.use(UPSTREAMS[name]) is use, (name, replace)


def test_what_may_ask_for_no_key_is_guarded_where_the_operator_has_none_for_it() -> None:
    """Its names on this machine, ``auth = "none"``, and names of the operator's own without TLS."""
    nobodys, callers, operators = KeyUse.NOBODYS, KeyUse.CALLERS, KeyUse.OPERATORS
    changes: dict[str, dict[str, object]] = {
        "vllm": {"url": "https://gpu.example"}, "gpu-7": {"url": "http://10.0.0.7:8000"},
        "hosted": {"url": "https://llm.example"}, "mistral": {"url": "http://10.0.0.8"},
        "free": {"url": "https://llm.example", "auth": "none"},
    }  # fmt: skip
    upstreams = allow_list(changes)
    guarding = OperatorKeys(static={"sglang": "sk"}, replace=True, guards_keyless=True)
    for name, use in (
        ("ollama", nobodys), ("llamacpp", nobodys), ("lmstudio", nobodys), ("vllm", nobodys),
        ("gpu-7", nobodys), ("free", nobodys), ("hosted", callers), ("mistral", callers),
        ("openai", callers), ("sglang", operators),
    ):  # fmt: skip
        assert guarding.use(upstreams[name]) is use, name
        if name != "sglang":
            assert OperatorKeys().use(upstreams[name]) is callers, name


def test_the_operators_key_is_told_from_any_other_without_being_printed() -> None:
    keys = OperatorKeys(static={"openai": "sk-secret"}, signed={Auth.AWS, Auth.GOOGLE})
    told = {keys.identity(UPSTREAMS[name]) for name in ("openai", "bedrock", "vertex")}
    assert len(told) == 3
    assert "sk-secret" not in repr(keys)


def test_credentials_that_are_renewed_stay_one_key() -> None:
    keys = OperatorKeys(signed={Auth.AWS})
    other = Upstream(name="bedrock-eu", url="https://x.example", auth=Auth.AWS)
    assert keys.identity(UPSTREAMS["bedrock"]) == keys.identity(other)


@pytest.mark.parametrize(
    ("query", "left"),
    [
        (b"", b""),
        (b"key=own", b""),
        (b"alt=sse&key=own&x=1", b"alt=sse&x=1"),
        (b"%6Bey=own&KEY=own&Api_Key=own&api-key=own&access_token=t&oauth_token=t", b""),
        (b"a=1;key=own&b=2", b"b=2"),
        (b"$userProject=p&$httpHeaders=Authorization:x&$httpMethod=DELETE&$alt=sse", b"$alt=sse"),
        (b"userProject=p&quotaUser=q&user_project=kept", b"user_project=kept"),
        (b"X-Amz-Signature=s&X-Amz-Credential=c&X-Amz-Security-Token=t&v=1", b"v=1"),
        (b"api-version=2024-10-21&deployment=d", b"api-version=2024-10-21&deployment=d"),
        (b"a=%2F&&b&keys=1&monkey=2&page_token=3", b"a=%2F&&b&keys=1&monkey=2&page_token=3"),
    ],
)
def test_what_names_a_key_or_an_account_leaves_a_query(query: bytes, left: bytes) -> None:
    assert without_keys(query) == left

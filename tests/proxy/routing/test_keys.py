from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.keys import Keyring, KeyUse, OperatorKeys, without_keys
from proxy.routing.upstreams import Auth, Upstream, allow_list

# --------------------------------------------------------------------------------------------------
# For which upstreams the operator's keys go in, and what of a query does not go with them

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


# --- The keys that prove a call's rollout ---------------------------------------------------------

KEYRING = Keyring(b"s" * 32)


@given(st.text(min_size=1, max_size=200))
def test_a_key_names_and_proves_its_rollout(rollout: str) -> None:
    rollout = rollout.encode("utf-8", "replace").decode()
    assert KEYRING.rollout_of(KEYRING.mint(rollout)) == rollout
    assert KEYRING.opens(rollout, KEYRING.secret_of(rollout))


def test_a_role_has_a_key_and_a_secret_of_its_own() -> None:
    key = KEYRING.mint("r1", "judge")
    assert KEYRING.holder_of(key) == ("r1", "judge")
    assert KEYRING.holder_of(KEYRING.mint("r1")) == ("r1", "agent")
    assert KEYRING.rollout_of(key) is None, "it is not the agent's"
    secret = KEYRING.secret_of("r1", "judge")
    assert KEYRING.opens("r1", secret, "judge")
    opened = [("r1", "agent"), ("r1", "user"), ("r2", "judge")]
    assert not any(KEYRING.opens(rollout, secret, role) for rollout, role in opened)


def test_a_key_whose_role_was_changed_proves_nothing() -> None:
    judges, agents = KEYRING.mint("r1", "judge"), KEYRING.mint("r1")
    assert KEYRING.holder_of(judges.replace("judge", "user")) is None
    assert KEYRING.holder_of(judges.replace(".judge", "")) is None
    assert KEYRING.holder_of(agents.replace(".", ".judge.")) is None


def test_a_key_of_another_secret_or_rollout_proves_nothing() -> None:
    assert Keyring(b"t" * 32).rollout_of(KEYRING.mint("r1")) is None
    assert not KEYRING.opens("r2", KEYRING.secret_of("r1"))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tz-",
        "tz-.",
        "tz-cjE",
        "tz-%%%.x",
        "sk-cjE.x",
        "tz-/w==.x",
        "tz-cjE.judge.x",
        "tz-cjE.a.b.x",
    ],
)
def test_what_is_no_key_proves_nothing(key: str) -> None:
    assert KEYRING.rollout_of(key) is None


def test_the_server_s_secret_is_not_printed() -> None:
    assert "ssss" not in repr(KEYRING)

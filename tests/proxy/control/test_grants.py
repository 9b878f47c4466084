"""Keys and base URLs of a rollout's agent and of its other roles."""

from __future__ import annotations

from proxy.control.rollouts import access_of
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import allow_list

KEYRING = Keyring(b"s" * 32)
UPSTREAMS = allow_list({})


def urls(**how: object) -> dict[str, str]:
    proven, role = bool(how.get("proven")), str(how.get("role", "agent"))
    access = access_of(KEYRING, UPSTREAMS, "a/b", role=role, public_url="http://p", proven=proven)
    assert access.env["OPENAI_BASE_URL"] == access.base_urls["openai"]
    assert access.key == KEYRING.mint("a/b", role)
    return access.base_urls


def test_a_base_url_names_the_rollout_and_the_role() -> None:
    secret, judges = KEYRING.secret_of("a/b"), KEYRING.secret_of("a/b", "judge")
    assert urls()["openai"] == "http://p/r/a%2Fb/openai/v1"
    assert urls(proven=True)["anthropic"] == f"http://p/r/a%2Fb~{secret}/anthropic"
    assert urls(role="judge")["openai"] == "http://p/r/a%2Fb/as/judge/openai/v1"
    proven = urls(role="judge", proven=True)["openai"]
    assert proven == f"http://p/r/a%2Fb~{judges}/as/judge/openai/v1"


def test_an_upstream_without_an_address_has_no_base_url() -> None:
    assert "azure" not in urls()
    assert "mistral" in urls()

"""Whose call it is and where it goes."""

from __future__ import annotations

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context

from classifier.records import RESERVED, Attribution
from proxy.routing import headers as http_headers
from proxy.routing import target as baggage
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring, KeyUse, OperatorKeys
from proxy.routing.target import Addresses, Target, address, is_data_plane, own_location
from proxy.routing.upstreams import Auth, Upstream, allow_list, checked_name
from tests.tables import each

KEYRING = Keyring(b"s" * 32)
UPSTREAMS = allow_list({"my_llm": {"url": "https://llm.example:8443/base"}})


def to(path: str, query: str = "", **headers: str) -> Target:
    pairs = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
    return address(
        path.encode(), query.encode(), pairs, upstreams=UPSTREAMS, keyring=KEYRING
    )  # fmt: skip


def refused(path: str, **headers: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        to(path, **headers)
    return caught.value


@pytest.mark.parametrize(
    ("path", "rollout", "upstream", "forwarded"),
    [
        ("/r/r1/openai/v1/chat/completions", "r1", "openai", b"/v1/chat/completions"),
        ("/r/r1/anthropic/v1/messages", "r1", "anthropic", b"/v1/messages"),
        ("/r/r1/gemini/v1beta/models/m:generateContent", "r1", "gemini",
         b"/v1beta/models/m:generateContent"),
        ("/r/a%2Fb/groq/v1/models", "a/b", "groq", b"/openai/v1/models"),
        ("/r/r1/my-llm/v1/x", "r1", "my-llm", b"/base/v1/x"),
        ("/r/r1/MY_LLM/v1/x", "r1", "my-llm", b"/base/v1/x"),
        ("/r/r1/anthropic", "r1", "anthropic", b"/"),
        ("/r/r1/anthropic/", "r1", "anthropic", b"/"),
        ("/r/r1/openai/v1/v1/chat/completions", "r1", "openai", b"/v1/chat/completions"),
        ("/r/%C3%A4/openai/v1/x", "ä", "openai", b"/v1/x"),
        ("/r/r/openai/r/x", "r", "openai", b"/r/x"),
        ("/r/r1/bedrock/model/us.a%3A0/converse", "r1", "bedrock", b"/model/us.a%3A0/converse"),
    ],
)  # fmt: skip
def test_the_path_names_rollout_upstream_and_rest(
    path: str, rollout: str, upstream: str, forwarded: bytes
) -> None:
    target = to(path)
    assert (target.rollout_id, target.upstream.name) == (rollout, upstream)
    assert target.forwarded == forwarded
    assert (target.attribution, target.role) == (Attribution.PATH, "agent")


def test_the_query_is_kept_raw() -> None:
    assert to("/r/r1/openai/v1/x", "a=%2F&&b").forwarded == b"/v1/x?a=%2F&&b"


@pytest.mark.parametrize("rollout", ["x" * 200, "ä" * 200, "a b", "a~b", "~", "as"])
def test_any_printable_id_of_up_to_200_characters_names_a_rollout(rollout: str) -> None:
    from urllib.parse import quote

    assert to(f"/r/{quote(rollout, safe='~')}/openai/v1/x").rollout_id == rollout


@each(
    "path, code",
    [
        ("/r/" + "x" * 201 + "/openai/v1/x", "bad_rollout"),
        ("/r/a%00b/openai/v1/x", "bad_rollout"),
        ("/r/a%0Ab/openai/v1/x", "bad_rollout"),
        ("/r/a%7Fb/openai/v1/x", "bad_rollout"),
        ("/r/%C2%85/openai/v1/x", "bad_rollout"),
        ("/r/%FF/openai/v1/x", "bad_rollout"),
        ("/r//openai/v1/x", "bad_rollout"),
        ("/r/", "bad_rollout"),
        ("/r", "bad_rollout"),
        ("/r/r1", "unknown_upstream"),
        ("/r/r1/nope/v1/x", "unknown_upstream"),
        ("/r/r1/rollouts/v1/x", "unknown_upstream"),
        ("/r/r1/azure/openai/x", "unconfigured_upstream"),
        ("/r/r1/openai/v1/../admin", "bad_path"),
        ("/r/r1/openai/%2e%2e/admin", "bad_path"),
        ("/r/r1/openai/v1/%2E./x", "bad_path"),
        ("/r/r1/openai/a/..%2Fx", "bad_path"),
        ("/r/r1/openai/..", "bad_path"),
        ("/r/r1/openai/v1/\xff", "bad_path"),
        ("/r/r1/as/Judge!/openai/v1/x", "bad_role"),
        ("/r/r1/as//openai/v1/x", "bad_role"),
    ],
)  # fmt: skip
def test_what_cannot_be_addressed_is_refused(path: str, code: str) -> None:
    assert refused(path.encode("latin-1").decode("latin-1")).code == code


def test_dots_inside_a_segment_are_no_dot_segments() -> None:
    path = "/r/r1/gemini/v1beta/models/gemini-2.5-flash:x/.hidden/a..b/..."
    assert to(path).path == b"/v1beta/models/gemini-2.5-flash:x/.hidden/a..b/..."


def test_an_unknown_upstream_says_which_are_known() -> None:
    refusal = refused("/r/r1/opnai/v1/x")
    assert refusal.status == 404
    assert "openai" in refusal.detail


@each(
    "path, right",
    [
        ("/v1/chat/completions", "/r/{rollout}/openai/v1/chat/completions"),
        ("/chat/completions", "/r/{rollout}/openai/v1/chat/completions"),
        ("/v1/responses", "/r/{rollout}/openai/v1/responses"),
        ("/r/r1/v1/embeddings", "/r/{rollout}/openai/v1/embeddings"),
        ("/v1/messages", "/r/{rollout}/anthropic/v1/messages"),
        ("/v1beta/models/g-2:generateContent",
         "/r/{rollout}/gemini/v1beta/models/g-2:generateContent"),
        ("/v1/interactions", "/r/{rollout}/gemini/v1/interactions"),
        ("/v1beta/interactions/v1_a/cancel",
         "/r/{rollout}/gemini/v1beta/interactions/v1_a/cancel"),
    ],
)  # fmt: skip
def test_a_models_path_without_an_upstream_is_told_the_right_one(path: str, right: str) -> None:
    refusal = refused(path, x_truezero_rollout="r1")
    assert refusal.code == "unknown_upstream"
    assert f"use {right}, or one of anthropic, " in refusal.detail


def test_a_models_path_without_a_rollout_is_told_the_right_one() -> None:
    refusal = refused("/v1/chat/completions")
    assert refusal.code == "no_rollout"
    assert "use the path /r/{rollout}/openai/v1/chat/completions" in refusal.detail
    other = refused("/v1beta/models/\xe4:generateContent")
    assert "use the base_url /r/{rollout}/{upstream}/…" in other.detail


def test_a_role_stands_in_the_path_or_in_a_header() -> None:
    assert to("/r/r1/as/judge/openai/v1/x").role == "judge"
    assert to("/r/r1/openai/v1/x", x_truezero_role="user-simulator").role == "user-simulator"
    assert to("/r/r1/as/judge/openai/v1/x", x_truezero_role="agent").role == "judge"


def proving(path: str, **headers: str) -> Target:
    """The target where roles must be proven: a token is set."""
    pairs = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
    addresses = Addresses(UPSTREAMS, KEYRING, proof_required=True)
    return addresses.read(path.encode(), b"", pairs)


def test_where_proof_is_required_a_role_needs_its_own() -> None:
    agents, judges = KEYRING.secret_of("r1"), KEYRING.secret_of("r1", "judge")
    chat, key = "/openai/v1/x", KEYRING.mint("r1")
    rows: tuple[tuple[str, dict[str, str], str], ...] = (
        (f"/r/r1~{agents}{chat}", {}, "agent"),
        (f"/r/r1~{agents}/as/judge{chat}", {}, "agent"),
        (f"/r/r1~{agents}{chat}", {"x_truezero_role": "judge"}, "agent"),
        (chat, {"x_api_key": key, "x_truezero_role": "judge"}, "agent"),
        (f"/r/r1/as/judge{chat}", {"x_api_key": key}, "agent"),
        (f"/r/r1~{judges}/as/judge{chat}", {}, "judge"),
        (f"/r/r1~{judges}{chat}", {"x_truezero_role": "judge"}, "judge"),
        (chat, {"x_api_key": KEYRING.mint("r1", "judge")}, "judge"),
        (chat, {"x_api_key": KEYRING.mint("r1", "judge"), "x_truezero_role": "user"}, "judge"),
        (f"/r/r1/as/user{chat}", {"x_api_key": KEYRING.mint("r1", "judge")}, "judge"),
    )
    for path, headers, role in rows:
        target = proving(path, **headers)
        assert (target.rollout_id, target.proven, target.role) == ("r1", True, role), path


def test_a_roles_secret_proves_no_other_role_and_no_other_rollout() -> None:
    judges = KEYRING.secret_of("r1", "judge")
    for path in (
        f"/r/r1~{judges}/openai/v1/x",
        f"/r/r1~{judges}/as/user/openai/v1/x",
        f"/r/r2~{judges}/as/judge/openai/v1/x",
        f"/r/r1~{judges}/as/agent/openai/v1/x",
    ):
        target = proving(path)  # fmt: skip
        assert (target.proven, target.role) == (False, "agent"), path


def test_without_a_token_a_role_is_what_a_call_says() -> None:
    judges = KEYRING.mint("r1", "judge")
    assert to("/openai/v1/x", x_api_key=judges).role == "judge"
    assert to("/openai/v1/x", x_api_key=judges, x_truezero_role="user").role == "user"
    assert to(f"/r/r1~{KEYRING.secret_of('r1')}/as/judge/openai/v1/x").role == "judge"


def test_a_minted_key_names_and_proves_its_rollout() -> None:
    key = KEYRING.mint("a/b ä")
    for header in ("authorization", "x_api_key", "x_goog_api_key", "api_key", "x_truezero_key"):
        value = f"Bearer {key}" if header == "authorization" else key
        target = to("/openai/v1/chat/completions", **{header: value})
        assert target.rollout_id == "a/b ä"
        assert target.attribution is Attribution.MINTED_KEY
        assert target.proven


def test_a_key_that_is_not_ours_is_refused() -> None:
    forged = KEYRING.mint("r1")[:-1] + "x"
    assert refused("/openai/v1/x", x_api_key=forged).status == 401
    assert refused("/openai/v1/x", x_api_key="tz-junk").status == 401
    assert refused("/openai/v1/x", x_api_key="tz-%%%.x").status == 401
    for wrong in (forged, "tz-junk", "sk-mine", ""):
        refusal = refused("/openai/v1/x", x_truezero_key=wrong, x_truezero_rollout="r1")
        assert (refusal.status, refusal.code) == (401, "unknown_key"), wrong


def test_a_rollout_key_beside_the_providers_own_names_and_proves_its_rollout() -> None:
    key, others = KEYRING.mint("by-header"), KEYRING.mint("by-key")
    beside = to("/openai/v1/x", x_truezero_key=key, authorization="Bearer sk-own")
    assert (beside.rollout_id, beside.proven) == ("by-header", True)
    # A client's own key is for all its calls, the header for one of them.
    assert to("/openai/v1/x", x_api_key=others, x_truezero_key=key).rollout_id == "by-header"
    judges = KEYRING.mint("r1", "judge")
    assert to("/openai/v1/x", x_truezero_key=judges).role == "judge"


@pytest.mark.parametrize("blank", [" {}", "{} ", "\t{}\t ", " {}\t"])
def test_blanks_around_a_value_are_no_part_of_it(blank: str) -> None:
    """RFC 9110 §5.5; the parser of requests leaves those behind a value."""
    key = KEYRING.mint("r1")
    assert to("/openai/v1/x", **{"x-truezero-rollout": blank.format("r 1")}).rollout_id == "r 1"
    proven = to("/openai/v1/x", **{"x-truezero-key": blank.format(key)})
    assert (proven.rollout_id, proven.attribution) == ("r1", Attribution.MINTED_KEY)
    judge = to("/r/r1/openai/v1/x", **{"x-truezero-role": blank.format("judge")})
    assert (judge.rollout_id, judge.role) == ("r1", "judge")
    assert to("/openai/v1/x", **{"x-session-id": blank.format("s1")}).rollout_id == "s1"


def test_weaker_sources_never_override_stronger_ones() -> None:
    minted = KEYRING.mint("by-key")
    every = {"x_truezero_rollout": "by-header", "x_session_id": "borrowed"}
    for header in ("x_api_key", "x_truezero_key"):
        keyed = {**every, header: minted}
        by_path = to("/r/by-path/openai/v1/x", **keyed)
        assert (by_path.rollout_id, by_path.proven) == ("by-path", False)
        assert to("/openai/v1/x", **keyed).rollout_id == "by-key"
    assert to("/openai/v1/x", **every).attribution is Attribution.HEADER
    del every["x_truezero_rollout"]
    borrowed = to("/openai/v1/x", **every)
    assert (borrowed.rollout_id, borrowed.attribution) == ("borrowed", Attribution.BORROWED_HEADER)


@pytest.mark.parametrize(
    "header",
    [
        "x-session-id", "session_id", "session-id", "x-claude-code-session-id",
        "helicone-session-id", "x-litellm-session-id", "x-litellm-trace-id",
        "x-portkey-trace-id", "x-bf-session-id",
    ],
)  # fmt: skip
def test_sessions_that_agents_already_name_are_borrowed(header: str) -> None:
    target = address(
        b"/openai/v1/x", b"", [(header.encode(), b"s1")], upstreams=UPSTREAMS, keyring=KEYRING
    )
    assert target.rollout_id == "s1"
    assert not target.proven


def test_a_call_that_names_nobody_is_refused() -> None:
    refusal = refused("/openai/v1/x")
    assert (refusal.status, refusal.code) == (400, "no_rollout")
    assert "x-truezero-rollout" in refusal.detail


def test_where_it_may_a_call_that_names_nobody_is_let_in_by_upstream_and_headers() -> None:
    asked: list[tuple[str, bytes | None]] = []
    addresses = Addresses(
        UPSTREAMS,
        KEYRING,
        operator_keys=OperatorKeys(static={"gemini": "g-real"}, replace=True),
        unattributed=lambda upstream, headers: asked.append((upstream.name, headers.get(b"host"))),
    )
    nobody = addresses.read(b"/gemini/v1beta/models/m:x", b"key=g-own", [(b"host", b"localhost")])
    assert (nobody.rollout_id, nobody.attribution) == ("unattributed", Attribution.UNATTRIBUTED)
    assert (nobody.proven, nobody.keys, nobody.query) == (False, KeyUse.CALLERS, b"key=g-own")
    named = addresses.read(b"/gemini/v1beta/x", b"", [(b"x-truezero-rollout", b"r1")])
    assert (named.rollout_id, named.keys) == ("r1", KeyUse.OPERATORS)
    with pytest.raises(Refusal):
        addresses.read(b"/nowhere/v1", b"", [])
    assert asked == [("gemini", b"localhost")]


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_nobody_names_a_reserved_id(name: str) -> None:
    for path, headers in (
        (f"/r/{name}/openai/v1/x", {}),
        (f"/r/%{ord(name[0]):x}{name[1:]}/openai/v1/x", {}),
        ("/openai/v1/x", {"x_truezero_rollout": name}),
        ("/openai/v1/x", {"x_session_id": name}),
    ):
        assert refused(path, **headers).code == "reserved_rollout", path
    assert refused(f"/r/{name}~{KEYRING.secret_of(name)}/openai/v1/x").code == "reserved_rollout"


def test_a_secret_in_the_path_proves_only_its_own_rollout() -> None:
    secret = KEYRING.secret_of("r1")
    assert to(f"/r/r1~{secret}/openai/v1/x").proven
    assert to(f"/r/r1~{secret}/openai/v1/x").rollout_id == "r1"
    other = to(f"/r/r2~{secret}/openai/v1/x")
    assert not other.proven
    assert other.rollout_id == f"r2~{secret}"


def test_a_minted_key_proves_a_bare_path_of_the_same_rollout_only() -> None:
    for header in ("x_api_key", "x_truezero_key"):
        shown = {header: KEYRING.mint("r1")}
        assert to("/r/r1/openai/v1/x", **shown).proven
        assert not to("/r/r2/openai/v1/x", **shown).proven


@pytest.mark.parametrize(
    ("path", "agents"),
    [
        ("/r/r1/openai/v1/x", True), ("/r", True), ("/openai/v1/x", True), ("/my_llm", True),
        ("/rollouts", False), ("/rollouts/r1/verdict", False), ("/docs", False), ("/", False),
        ("/healthz", False), ("/reports", False), ("/v1/chat/completions", True),
        ("/v1/messages", True), ("/models", True), ("/v1/rollouts", False), ("/v1", False),
    ],
)  # fmt: skip
def test_the_data_plane_claims_its_paths_and_no_others(path: str, agents: bool) -> None:
    assert is_data_plane(path.encode(), UPSTREAMS) is agents


@pytest.mark.parametrize("path", ["/help/v1/chat/completions", "/help/", "/r/r1/help/v1/x"])
def test_an_operators_upstream_named_help_comes_before_the_documentation(path: str) -> None:
    operators = {checked_name("help"): UPSTREAMS["openai"]}
    assert is_data_plane(path.encode(), operators)
    assert is_data_plane(b"/help", operators) is False, "the documentation's one segment"


# --- A rollout named by W3C baggage ---------------------------------------------------------------

HEADER = b"baggage"


def baggage_to(*pairs: tuple[bytes, bytes], path: bytes = b"/openai/v1/x") -> Target:
    return address(path, b"", pairs, upstreams=UPSTREAMS, keyring=KEYRING)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([b"truezero.rollout=r1"], b"r1"),
        ([b"user=u,truezero.rollout = r1 ;ttl=3, other=o"], b"r1"),
        ([b"user=u", b"truezero.rollout=a%2Fb%3D"], b"a%2Fb%3D"),
        ([b"truezero.rollout=first", b"truezero.rollout=second"], b"first"),
        ([b"truezero.rollout=a=b"], b"a=b"),
        ([b"truezero.rollout="], b""),
        ([b"truezero.rollout"], b""),
        ([b"xtruezero.rollout=r1,truezero.rollouts=r2"], None),
        ([b"user=truezero.rollout=r1"], None),
        ([b""], None),
        ([], None),
    ],
)
def test_the_first_member_of_its_name_counts(values: list[bytes], named: bytes | None) -> None:
    assert baggage.rollout([(b"a", b"b"), *((HEADER, value) for value in values)]) == named


def test_what_opentelemetry_sends_names_the_rollout() -> None:
    carrier: dict[str, str] = {}
    carried = set_baggage("truezero.rollout", "nightly/ä-1", set_baggage("user", "u", Context()))
    W3CBaggagePropagator().inject(carrier, carried)
    target = baggage_to((HEADER, carrier["baggage"].encode()))
    assert (target.rollout_id, target.attribution, target.proven) == (
        "nightly/ä-1", Attribution.BORROWED_HEADER, False,
    )  # fmt: skip


def test_it_is_weaker_than_our_own_and_comes_before_a_session() -> None:
    carried, session = (HEADER, b"truezero.rollout=carried"), (b"x-session-id", b"session")
    ours = (b"x-truezero-rollout", b"ours")
    minted = (b"x-truezero-key", KEYRING.mint("keyed").encode())
    for expected, target in (
        ("carried", baggage_to(session, carried)),
        ("ours", baggage_to(carried, ours)),
        ("keyed", baggage_to(carried, minted)),
        ("path", baggage_to(carried, path=b"/r/path/openai/v1/x")),
        ("session", baggage_to((HEADER, b"user=u"), session)),
        ("session", baggage_to((HEADER, b"truezero.rollout="), session)),
    ):
        assert target.rollout_id == expected


def test_what_cannot_name_a_rollout_is_refused() -> None:
    for value, code in (
        (b"unattributed", "reserved_rollout"),
        (b"x" * 201, "bad_rollout"),
        (b"%ff", "bad_rollout"),
        (b"a%0ab", "bad_rollout"),
    ):
        with pytest.raises(Refusal) as caught:
            baggage_to((HEADER, b"truezero.rollout=" + value))
        assert caught.value.code == code, value


def test_it_goes_on_to_the_provider_unchanged() -> None:
    pair = (HEADER, b"user=u,truezero.rollout=r1")
    sent = http_headers.for_upstream([pair], host=b"h", auth=Auth.BEARER, real_key=None)
    assert pair in sent


# --- redirects -----------------------------------------------------------------------------


CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("url", "path", "sent"),
    [
        ("https://gw.example/v1", "/v1/chat/completions", b"/v1/chat/completions"),
        ("https://gw.example/v1/", "/v1/chat/completions", b"/v1/chat/completions"),
        ("https://gw.example/api/v1", "/v1/messages", b"/api/v1/messages"),
        ("https://gw.example/v1", "/v1/v1/chat/completions", b"/v1/chat/completions"),
        ("https://gw.example/v1", "/chat/completions", b"/v1/chat/completions"),
        ("https://gw.example/v1", "/v1beta/models", b"/v1/v1beta/models"),
        ("https://gw.example/v11", "/v1/models", b"/v11/v1/models"),
        ("https://gw.example/v1/openai", "/v1/models", b"/v1/openai/v1/models"),
        ("https://gw.example", "/v1/models", b"/v1/models"),
    ],
)
def test_v1_is_sent_once_where_prefix_and_path_meet(url: str, path: str, sent: bytes) -> None:
    upstreams = {"gw": Upstream(name="gw", url=url.rstrip("/"))}
    asked = f"/r/r1/gw{path}".encode()
    target = address(asked, b"a=1", [], upstreams=upstreams, keyring=KEYRING)
    assert target.forwarded == sent + b"?a=1"
    assert target.upstream.url == url.rstrip("/"), "it stays as it was given"
    again = own_location(sent + b"/", asked, target)
    assert address(again, b"", [], upstreams=upstreams, keyring=KEYRING).forwarded == sent + b"/"


@pytest.mark.parametrize(
    ("asked", "location", "own"),
    [
        ("/r/r1/openai" + CHAT, CHAT + "/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, f"https://api.openai.com{CHAT}/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, f"HTTPS://API.openai.com:443{CHAT}/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, f"http://api.openai.com{CHAT}/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, f"//api.openai.com{CHAT}/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, "completions/", "/r/r1/openai" + CHAT + "/"),
        ("/r/r1/openai" + CHAT, "../responses?a=%2F#b", "/r/r1/openai/v1/responses?a=%2F#b"),
        ("/r/r1/openai" + CHAT, "?beta=true", "/r/r1/openai" + CHAT + "?beta=true"),
        ("/r/r1/openai" + CHAT, "/", "/r/r1/openai/"),
        ("/r/a%2Fb/as/judge/groq/v1/x", "/openai/v1/x/", "/r/a%2Fb/as/judge/groq/v1/x/"),
        ("/r/r1/my-llm/v1/x", "/base/v1/x%20/", "/r/r1/my-llm/v1/x%20/"),
        ("/r/r1/openai/v1/v1/chat/completions", CHAT + "/", "/r/r1/openai/v1" + CHAT + "/"),
        ("/r/r1/anthropic", "/v1", "/r/r1/anthropic/v1"),
    ],
)
def test_a_redirect_to_a_place_of_the_upstream_s_own_stays_here(
    asked: str, location: str, own: str
) -> None:
    there = own_location(location.encode(), asked.encode(), to(asked))
    assert there == own.encode()
    path, _, query = own.partition("#")[0].partition("?")
    again = to(path, query)
    assert again.upstream == to(asked).upstream
    assert again.rollout_id == to(asked).rollout_id
    assert again.role == to(asked).role


@pytest.mark.parametrize(
    ("asked", "location", "url"),
    [
        ("/r/r1/openai/v1/x", "https://login.example.com/v1/x/", None),
        ("/r/r1/openai/v1/x", "https://api.openai.com:8443/v1/x/", None),
        ("/r/r1/openai/v1/x", "https://api.openai.com.example.com/v1/x/", None),
        ("/r/r1/openai/v1/x", "https://api.openai.com@example.com/v1/x/", None),
        ("/r/r1/openai/v1/x", "ftp://api.openai.com/v1/x/", None),
        ("/r/r1/openai/v1/x", "//example.com/v1/x/", "https://example.com/v1/x/"),
        ("/r/r1/groq/v1/x", "/login", "https://api.groq.com/login"),
        ("/r/r1/groq/v1/x", "/openai-of-others/v1/x", "https://api.groq.com/openai-of-others/v1/x"),
        ("/r/r1/openai/v1/x", "https://[::1/v1", None),
        ("/r/r1/openai/v1/x", "https://api.openai.com:port/v1", None),
    ],
)
def test_a_redirect_elsewhere_is_left_as_it_is(asked: str, location: str, url: str | None) -> None:
    there = own_location(location.encode(), asked.encode(), to(asked))
    assert there == (url or location).encode()

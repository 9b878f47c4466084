"""What each credential opens, that an agent may hold: nothing of the control plane, one rollout.

Routes are taken from the application itself, so that a new one is covered without a line here.
"""

from __future__ import annotations

import ast
import base64
import hmac
import json
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from proxy.api.auth import LIFE_S, LINK_LIFE_S, ControlAuth, Sessions
from proxy.app import Application
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import RESERVED, SHARED
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.relaying import running
from tests.proxy import inside
from tests.proxy.api.test_routes import ASK, CHAT

TOKEN = "t0ken-of-the-operator"
ADMIN = {"authorization": f"Bearer {TOKEN}"}
OWN_KEY, REAL_KEY = "sk-the-agents-own-key", "sk-real-key-behind-the-sandbox"
ENDED = {
    "status": "success", "termination_reason": "agent_stop", "prompts_executed": 1,
    "rewards": {"reward": 0.0},
}  # fmt: skip

Headers = dict[str, str]
Route = tuple[str, str]  # method and path, its parameters filled in


@dataclass(frozen=True)
class House:
    """A guarded service, its provider, and three rollouts: ``a``, ``b``, and ``gone``, revoked."""

    port: int
    http: httpx.Client
    folder: Path
    provider: Provider
    routes: tuple[Route, ...]
    described: frozenset[Route]
    keys: dict[str, str]  # rollout → minted key
    secrets: dict[str, str]  # rollout → what stands behind ~ in its base_url

    def ask(self, method: str, path: str, headers: Headers, **more: Any) -> httpx.Response:
        """One request with these headers only; of an endless answer the head is enough."""
        self.http.cookies.clear()
        with self.http.stream(method, path, headers=headers, **more) as answer:
            if "event-stream" not in answer.headers.get("content-type", ""):
                answer.read()
            return answer

    def everything(self) -> list[dict[str, Any]]:
        """All that an agent might change, as the operator exports it."""
        lines = self.ask("GET", "/rollouts/export", ADMIN).text.splitlines()
        return [json.loads(line) for line in lines]


def routes_of(app: Application) -> Iterator[tuple[str, Iterable[str]]]:
    """Every route of the control plane, pages and documentation included."""
    left = list(app.control_plane().app.routes)
    while left:
        route: Any = left.pop()
        if hasattr(route, "original_router"):
            left += route.original_router.routes
        else:
            yield route.path, route.methods


def filled(path: str) -> str:
    """A path with an agent's own rollout for each parameter."""
    return re.sub(r"\{batch(?::path)?\}", "batch", re.sub(r"\{(?!batch)[^}]*\}", "a", path))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with Provider(answers.healthy) as provider:
        environment = {
            "TRUEZERO_DATABASE_URL": str(folder / "t.db"),
            "TRUEZERO_UPSTREAM_OPENAI": provider.url,
            "TRUEZERO_KEY_OPENAI": REAL_KEY,
            "TRUEZERO_ADMIN_TOKEN": TOKEN,
        }
        Database(environment["TRUEZERO_DATABASE_URL"]).prepare()
        app = Application(load({}, environment), environment)
        found = {
            (method, filled(path))
            for path, methods in routes_of(app)
            for method in methods
            if method != "HEAD"
        }
        described = {
            (method, filled(route.path_format))
            for route in app.control_plane().app.routes
            if isinstance(route, APIRoute) and route.include_in_schema
            for method in route.methods or ()
        }
        with running(app) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
            registered = {name: register(http, name) for name in ("a", "b", "gone")}
            keys = {name: one["key"] for name, one in registered.items()}
            with closing(Database(environment["TRUEZERO_DATABASE_URL"])) as database:
                database.rollouts.revoke("gone", now=time.time())
            bases = {name: one["base_urls"]["openai"] for name, one in registered.items()}
            secrets = {name: base.split("~")[1].split("/")[0] for name, base in bases.items()}
            yield House(
                port=port, http=http, folder=folder, provider=provider, routes=tuple(sorted(found)),
                described=frozenset(described), keys=keys, secrets=secrets,
            )  # fmt: skip


def register(http: httpx.Client, name: str) -> dict[str, Any]:
    answer = http.post("/rollouts", json={"id": name, "batch": "batch"}, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def flipped(text: str, at: int = -1) -> str:
    """The same with one character changed."""
    characters = list(text)
    characters[at] = "A" if characters[at] != "A" else "B"
    return "".join(characters)


# --- the control plane -----------------------------------------------------------------------

# What a route shows to whoever comes: that the process lives, and how a person signs in.
OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/ui/sign-in"),
    ("POST", "/ui/sign-in"),  # 403 without the token, as the pages' own tests show
    ("GET", "/ui/static/a"),
}

Credential = Callable[[House], Headers]


def bearer(value: str) -> Headers:
    return {"authorization": f"Bearer {value}"}


CREDENTIALS: dict[str, Credential] = {
    "none": lambda house: {},
    "a minted key": lambda house: bearer(house.keys["a"]),
    "a minted key where Anthropic has it": lambda house: {"x-api-key": house.keys["a"]},
    "a minted key where Gemini has it": lambda house: {"x-goog-api-key": house.keys["a"]},
    "the secret of a base_url": lambda house: bearer(house.secrets["a"]),
    "a rollout and its secret": lambda house: bearer(f"a~{house.secrets['a']}"),
    "another rollout's key": lambda house: bearer(house.keys["b"]),
    "a revoked key": lambda house: bearer(house.keys["gone"]),
    "a forged key": lambda house: bearer(flipped(house.keys["a"])),
    "a provider's key": lambda house: bearer(OWN_KEY),
    "the provider's real key": lambda house: bearer(REAL_KEY),
    "an empty token": lambda house: {"authorization": "Bearer"},
    "the token with a byte flipped": lambda house: bearer(flipped(TOKEN)),
    "the token's beginning": lambda house: bearer(TOKEN[:-1]),
    "the token and more": lambda house: bearer(TOKEN + "x"),
    "the token in another header": lambda house: {"x-api-key": TOKEN, "api-key": TOKEN},
    "the token as a password": lambda house: {
        "authorization": "Basic " + base64.b64encode(f"x:{TOKEN}".encode()).decode()
    },
    "a session of nobody": lambda house: {"cookie": "truezero_session=9999999999." + "0" * 64},
    "the token as a session": lambda house: {"cookie": f"truezero_session={TOKEN}"},
    "the token as a session's seal": lambda house: {
        "cookie": f"truezero_session=9999999999.{TOKEN}"
    },
    "headers of ours": lambda house: {"x-truezero-rollout": "a", "x-truezero-role": "admin"},
    "what a proxy in front would say": lambda house: {
        "x-forwarded-for": "127.0.0.1", "x-forwarded-host": "localhost", "x-real-ip": "127.0.0.1",
        "x-original-url": "/healthz", "x-rewrite-url": "/healthz", "forwarded": "for=127.0.0.1",
        "x-http-method-override": "GET",
    },
}  # fmt: skip


def test_the_routes_were_found(house: House) -> None:
    assert house.described <= set(house.routes)
    assert len(house.routes) > len(house.described) + 8, "pages and documentation too"
    assert set(house.routes) >= OPEN


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("credential", CREDENTIALS)
def test_nothing_an_agent_holds_opens_a_control_route(
    house: House, credential: str, every: int
) -> None:
    guarded = [route for route in house.routes if route not in OPEN]
    if credential != "none":  # each route is tried with every seventh of the others
        guarded = guarded[[*CREDENTIALS].index(credential) % every :: every]
    before = house.everything()
    for method, path in guarded:
        for accept in ("*/*", "text/html"):
            headers = {**CREDENTIALS[credential](house), "accept": accept}
            answer = house.ask(method, path, headers, json=ENDED)
            person = accept == "text/html" and answer.status_code == 303
            assert person or answer.status_code == 401, f"{method} {path}: {answer.text}"
            assert answer.headers["x-truezero-refusal"] == ("sign_in" if person else "unauthorized")
            assert "access-control-allow-origin" not in answer.headers
    assert house.everything() == before


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_a_query_does_not_open_one_either(house: House, credential: str) -> None:
    shown = "".join(CREDENTIALS[credential](house).values()).removeprefix("Bearer ")
    for name in ("token", "key", "api_key", "access_token", "admin_token"):
        answer = house.ask("GET", "/rollouts/a/verdict", {}, params={name: shown})
        assert answer.status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_the_operators_token_opens_every_one(house: House, every: int) -> None:
    unchanged = {("POST", "/rollouts/a/outcome"), ("POST", "/key/delete")}
    for method, path in house.routes[::every]:
        body = {} if (method, path) not in unchanged else {"status": "nonsense"}
        answer = house.ask(method, path, ADMIN, json=body)
        assert answer.status_code != 401, f"{method} {path}"
        assert answer.headers.get("x-truezero-refusal") not in ("unauthorized", "sign_in")


# Ways round a check that looks at another spelling of the path than what answers it.
SPELLINGS = (
    "//rollouts/a/verdict",
    "/./rollouts/a/verdict",
    "/%72ollouts/a/verdict",
    "/rollouts%2Fa%2Fverdict",
    "/rollouts/a/verdict/",
    "/ROLLOUTS/a/verdict",
    "/healthz/../rollouts/a/verdict",
    "/healthz/%2e%2e/rollouts/a/verdict",
    "/healthz%2F..%2Frollouts/a/verdict",
    "/healthz;/rollouts/a/verdict",
    "/healthz?/rollouts/a/verdict",
    "/ui/static/../../rollouts/a/verdict",
    "/ui/static/..%2F..%2Frollouts%2Fa%2Fverdict",
    "/ui/sign-in/../rollouts/a",
    "/ui/sign-in%2F..%2Frollouts%2Fa",
    "/ui/static/%2e%2e/rollouts/a",
    "/r/../rollouts/a/verdict",
    "/r/a/../../rollouts/a/verdict",
    "/openai/../rollouts/a/verdict",
    "/openai/%2e%2e/rollouts/a/verdict",
    "http://localhost/rollouts/a/verdict",
    "http://x/healthz/../rollouts/a/verdict",
    "\\rollouts\\a\\verdict",
)


@pytest.mark.parametrize("target", SPELLINGS)
def test_no_spelling_of_a_path_leads_past_the_check(house: House, target: str) -> None:
    asked = len(house.provider.requests)
    answer = raw(house, f"GET {target} HTTP/1.1", "Host: localhost")
    status = int(answer[9:12]) if answer else 0
    assert b"rollout_id" not in answer, "a verdict"
    assert b"total_requests" not in answer
    if status == 200:
        assert b'"status"' in answer, "no more than a sign of life"
    assert len(house.provider.requests) == asked


def raw(house: House, *lines: str) -> bytes:
    """Send a head as it is; all that comes back."""
    with socket.create_connection(("127.0.0.1", house.port), 5) as connection:
        connection.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
        got = b""
        while chunk := connection.recv(65536):
            got += chunk
    return got


def test_no_upstream_can_take_a_control_routes_name(house: House) -> None:
    """Agents' calls are claimed by their first segment, before any check of the operator's."""
    first = {path.split("/")[1] for _, path in house.routes} - {""}
    assert first <= RESERVED | SHARED
    assert SHARED.isdisjoint(RESERVED)


def test_a_route_that_may_have_an_upstreams_name_is_one_segment(house: House) -> None:
    """More of them would be an agent's call to that upstream."""
    shared = {path for _, path in house.routes if path.split("/")[1] in SHARED}
    elsewhere_too = {"/help/llms.txt"}  # at /ui/help/llms.txt
    assert {f"/ui{path}" for path in elsewhere_too} <= {path for _, path in house.routes}
    assert shared - elsewhere_too <= {f"/{name}" for name in SHARED}
    assert {"/status", "/turns"} <= shared


# --- the data plane --------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A way for an agent to say whose call it is, and what comes of it.

    ``writes``: the rollout that it is recorded on, None where it is refused with ``refused``.
    """

    how: str
    path: str
    headers: Credential
    writes: str | None = None
    refused: str | None = None


def key_of(name: str) -> Credential:
    return lambda house: bearer(house.keys[name])


def nothing(_: House) -> Headers:
    return {}


def named(name: str, header: str = "x-truezero-rollout") -> Credential:
    return lambda house: {header: name}


def both(*credentials: Credential) -> Credential:
    return lambda house: {k: v for one in credentials for k, v in one(house).items()}


def mixed(house: House) -> Headers:
    """A key that names one rollout, with the secret of another."""
    name, _, _ = house.keys["b"].partition(".")
    return bearer(f"{name}.{house.secrets['a']}")


CALLS = (
    Call("a key", "/openai", key_of("a"), writes="a"),
    Call("a secret in the path", "/r/a~{a}/openai", nothing, writes="a"),
    Call("the same, percent-encoded", "/r/a%7E{a}/openai", nothing, writes="a"),
    Call("a bare path with its key", "/r/a/openai", key_of("a"), writes="a"),
    Call("a key and another's name in a header", "/openai",
         both(key_of("a"), named("b")), writes="a"),
    Call("a key and another's session header", "/openai",
         both(key_of("a"), named("b", "x-session-id")), writes="a"),
    Call("a secret and another's key", "/r/a~{a}/openai", key_of("b"), writes="a"),
    Call("a bare path", "/r/a/openai", nothing, refused="unproven_rollout"),
    Call("another's bare path with one's key", "/r/b/openai", key_of("a"),
         refused="unproven_rollout"),
    Call("another's path with one's secret", "/r/b~{a}/openai", nothing,
         refused="unproven_rollout"),
    Call("another's path with one's secret and key", "/r/b~{a}/openai", key_of("a"),
         refused="unproven_rollout"),
    Call("both in the path", "/r/b~{a}~{a}/openai", nothing, refused="unproven_rollout"),
    Call("no secret behind the tilde", "/r/a~/openai", nothing, refused="unproven_rollout"),
    Call("a rollout by a header", "/openai", named("a"), refused="unproven_rollout"),
    Call("a rollout by a session header", "/openai", named("a", "x-session-id"),
         refused="unproven_rollout"),
    Call("a rollout by baggage", "/openai", named("truezero.rollout=a", "baggage"),
         refused="unproven_rollout"),
    Call("a key and another's baggage", "/openai",
         both(key_of("a"), named("truezero.rollout=b", "baggage")), writes="a"),
    Call("a key in a header of its own, and another's name", "/openai",
         both(lambda house: {"x-truezero-key": house.keys["a"]}, named("b")), writes="a"),
    Call("nothing", "/openai", nothing, refused="no_rollout"),
    Call("the reserved id", "/openai", named("unattributed"), refused="reserved_rollout"),
    Call("one's name with another's secret in a key", "/openai", mixed, refused="unknown_key"),
    Call("a key without a secret", "/openai",
         lambda house: bearer(house.keys["a"].partition(".")[0] + "."), refused="unknown_key"),
    Call("a revoked key", "/openai", key_of("gone"), refused="rollout_ended"),
    Call("a revoked key on its path", "/r/gone/openai", key_of("gone"), refused="rollout_ended"),
    Call("a revoked secret", "/r/gone~{gone}/openai", nothing, refused="rollout_ended"),
    Call("a role of the operator's", "/r/a/as/judge/openai", nothing, refused="unproven_rollout"),
    Call("a path that climbs", "/r/b~{a}/%2e%2e/a~{a}/openai", nothing, refused="unknown_upstream"),
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.how)
def test_a_call_is_written_on_the_rollout_it_proves_and_on_no_other(
    house: House, call: Call
) -> None:
    before, asked = house.everything(), len(house.provider.requests)
    path = call.path.format(**house.secrets) + CHAT
    answer = house.ask("POST", path, call.headers(house), json=ASK)
    added = [each for each in house.everything() if each not in before]
    grown = [each["rollout_id"] for each in added if each["record"] == "exchange"]
    if call.writes is not None:
        assert answer.status_code == 200, answer.text
        assert grown == [call.writes]
    else:
        assert answer.headers["x-truezero-refusal"] == call.refused
        assert added == [], "nothing is written, and no rollout made"
        assert len(house.provider.requests) == asked, "no provider was asked"


def test_no_flipped_byte_of_a_key_or_a_secret_opens_anything(house: House) -> None:
    asked = len(house.provider.requests)
    key, secret = house.keys["a"], house.secrets["a"]
    for at in range(3, len(key)):
        forged = flipped(key, at)
        answer = house.ask("POST", "/openai" + CHAT, bearer(forged), json=ASK)
        assert answer.headers["x-truezero-refusal"] == "unknown_key", forged
    for at in range(len(secret)):
        path = f"/r/a~{flipped(secret, at)}/openai{CHAT}"
        answer = house.ask("POST", path, {}, json=ASK)
        assert answer.headers["x-truezero-refusal"] == "unproven_rollout"
    assert len(house.provider.requests) == asked


# --- secrets: compared and kept --------------------------------------------------------------

KEYRING = Keyring(b"k" * 32)
SESSIONS = Sessions(b"k" * 32)
GUARD = ControlAuth(b"token", SESSIONS, lambda: 0.0)
SESSION = SESSIONS.issue(0.0, "n")

COMPARISONS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    "the admin token": (lambda: GUARD.opens(b"token"), lambda: GUARD.opens(b"tokem")),
    "a rollout's secret": (
        lambda: KEYRING.opens("r", KEYRING.secret_of("r")),
        lambda: KEYRING.opens("r", flipped(KEYRING.secret_of("r"))),
    ),
    "a minted key": (
        lambda: KEYRING.rollout_of(KEYRING.mint("r")) == "r",
        lambda: KEYRING.rollout_of(flipped(KEYRING.mint("r"))) == "r",
    ),
    "a session": (
        lambda: SESSIONS.holds(SESSION, 0.0),
        lambda: SESSIONS.holds(SESSION[:-1] + ("0" if SESSION[-1] != "0" else "1"), 0.0),
    ),
    "a form's token": (
        lambda: SESSIONS.accepts(SESSIONS.form_token(SESSION), SESSION),
        lambda: SESSIONS.accepts("f" * 64, SESSION),
    ),
}


@pytest.mark.parametrize("secret", COMPARISONS)
def test_the_comparison_in_constant_time_alone_decides(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = COMPARISONS[secret]
    assert right()
    assert not wrong()
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: True)
    assert wrong(), "nothing else looked at it"
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: False)
    assert not right(), "and nothing else let it in"


@pytest.mark.parametrize(
    "module", ["api/auth.py", "routing/keys.py", "web/context.py", "web/pages.py"]
)
def test_no_secret_is_compared_with_an_equals_sign(module: str) -> None:
    source = (Path(__file__).parents[3] / "proxy" / module).read_text()
    compared = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare) and not _is_with_none(node.ops)
    ]
    telling = re.compile(r"\b(?:\w*token|secret|seal|session|key|digest)\b")
    assert [text for text in compared if telling.search(text)] == []


def _is_with_none(operators: Sequence[ast.cmpop]) -> bool:
    return all(isinstance(one, ast.Is | ast.IsNot) for one in operators)


def test_no_key_or_token_is_at_rest(house: House) -> None:
    """Minted ones are computed, and of the others a salted digest of four bytes is kept."""
    key, secret = house.keys["a"], house.secrets["a"]
    for headers in (bearer(OWN_KEY), bearer(key), {"x-api-key": OWN_KEY}, {"api-key": OWN_KEY}):
        answer = house.ask("POST", f"/r/a~{secret}/openai{CHAT}?key={OWN_KEY}", headers, json=ASK)
        assert answer.status_code == 200
    form = {"token": TOKEN, "next": "/"}
    own = {"sec-fetch-site": "same-origin"}
    cookie = house.ask("POST", "/ui/sign-in", own, data=form).headers["set-cookie"]
    session = cookie.partition("=")[2].partition(";")[0]
    assert house.ask("GET", "/", {"cookie": f"truezero_session={session}"}).status_code == 200
    kept = b"".join(file.read_bytes() for file in house.folder.iterdir() if file.is_file())
    assert b"batch" in kept, "the files were read"
    for one in (TOKEN, OWN_KEY, REAL_KEY, key, secret, session):
        assert one.encode() not in kept


# --- Sessions of people: what they open, when they end, and what cannot be forged -----------------

OPERATORS_SESSIONS = Sessions.of(b"s" * 32, b"t0ken")
NOW = 1_800_000_000.0


def test_a_session_holds_until_it_ends() -> None:
    session = OPERATORS_SESSIONS.issue(NOW, "n")
    assert OPERATORS_SESSIONS.holds(session, NOW)
    assert OPERATORS_SESSIONS.holds(session, NOW + LIFE_S - 1)
    assert not OPERATORS_SESSIONS.holds(session, NOW + LIFE_S)


def test_every_process_of_a_deployment_accepts_it() -> None:
    assert Sessions.of(b"s" * 32, b"t0ken").holds(OPERATORS_SESSIONS.issue(NOW, "n"), NOW)


@pytest.mark.parametrize(
    "other", [Sessions.of(b"s" * 32, b"new"), Sessions.of(b"x" * 32, b"t0ken")]
)
def test_another_token_or_deployment_ends_it(other: Sessions) -> None:
    assert not other.holds(OPERATORS_SESSIONS.issue(NOW, "n"), NOW)


@pytest.mark.parametrize(
    "forged", ["", ".", "9999999999.", "9999999999.00", "a.b", "\xff.\xff", "1e99." + "0" * 64]
)
def test_what_we_did_not_issue_opens_nothing(forged: str) -> None:
    assert not OPERATORS_SESSIONS.holds(forged, NOW)


def test_a_later_end_cannot_be_written_into_it() -> None:
    ends, _, rest = OPERATORS_SESSIONS.issue(NOW, "n").partition(".")
    assert not OPERATORS_SESSIONS.holds(f"{int(ends) + 1}.{rest}", NOW)


def test_a_session_that_was_ended_opens_nothing_and_no_other_ends_with_it() -> None:
    sessions = Sessions.of(b"s" * 32, b"t0ken")
    mine, other = sessions.issue(NOW, "n"), sessions.issue(NOW, "m")
    name, ends = sessions.end(mine)
    assert not sessions.holds(mine, NOW)
    assert sessions.holds(other, NOW)
    assert ends == NOW + LIFE_S
    assert name not in mine, "what is noted of it opens nothing"
    elsewhere = Sessions.of(b"s" * 32, b"t0ken")
    assert elsewhere.holds(mine, NOW)
    elsewhere.ended.add(name)
    assert not elsewhere.holds(mine, NOW)


def test_neither_session_nor_form_says_anything_of_the_token() -> None:
    session = OPERATORS_SESSIONS.issue(NOW, "n")
    assert "t0ken" not in session + OPERATORS_SESSIONS.form_token(session) + repr(
        OPERATORS_SESSIONS
    )


def test_a_form_belongs_to_one_session() -> None:
    mine, other = OPERATORS_SESSIONS.issue(NOW, "n"), OPERATORS_SESSIONS.issue(NOW, "m")
    assert OPERATORS_SESSIONS.accepts(OPERATORS_SESSIONS.form_token(mine), mine)
    assert not OPERATORS_SESSIONS.accepts(OPERATORS_SESSIONS.form_token(other), mine)
    assert not OPERATORS_SESSIONS.accepts("", mine)
    assert not OPERATORS_SESSIONS.accepts(mine.rpartition(".")[2], mine), (
        "a session's seal is no form token"
    )


def test_a_link_is_good_for_ten_minutes_and_for_one_deployment_and_token() -> None:
    secret = OPERATORS_SESSIONS.invite(NOW, "n")
    invited = OPERATORS_SESSIONS.invited(secret, NOW + LINK_LIFE_S - 1)
    assert invited is not None
    name, ends = invited
    assert ends == NOW + LINK_LIFE_S == NOW + 600
    assert name not in secret, "what is noted of it opens nothing"
    assert OPERATORS_SESSIONS.invited(secret, NOW + LINK_LIFE_S) is None
    for other in (Sessions.of(b"s" * 32, b"new"), Sessions.of(b"x" * 32, b"t0ken")):
        assert other.invited(secret, NOW) is None


def test_a_link_is_no_session_and_a_session_is_no_link() -> None:
    assert not OPERATORS_SESSIONS.holds(OPERATORS_SESSIONS.invite(NOW, "n"), NOW)
    assert OPERATORS_SESSIONS.invited(OPERATORS_SESSIONS.issue(NOW, "n"), NOW) is None


def test_a_forged_link_opens_nothing() -> None:
    ends, _, rest = OPERATORS_SESSIONS.invite(NOW, "n").partition(".")
    for forged in (
        "",
        ".",
        "9999999999.00",
        "\xff.\xff",
        f"{int(ends) + 1}.{rest}",
        f"{ends}.{rest}0",
    ):
        assert OPERATORS_SESSIONS.invited(forged, NOW) is None, forged


# --- signing out, over HTTP and in every process ---------------------------------------------

OWN = {"sec-fetch-site": "same-origin", "accept": "text/html"}


def sign_in(http: httpx.Client) -> dict[str, str]:
    answer = http.post("/ui/sign-in", data={"token": "t0ken"}, headers=OWN)
    http.cookies.clear()
    return {**OWN, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def sign_out(http: httpx.Client, session: dict[str, str]) -> None:
    token = re.search(r'name="form_token" value="(\w+)"', http.get("/", headers=session).text)
    assert token is not None
    answer = http.post("/ui/sign-out", data={"form_token": token[1]}, headers=session)
    assert answer.headers["location"] == "/ui/sign-in"


def test_signing_out_ends_the_session_itself_in_every_process(tmp_path: Path) -> None:
    """A cookie that was copied before opens nothing afterwards."""
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    Database(environment["TRUEZERO_DATABASE_URL"]).prepare()
    one, two = (Application(load({}, environment), environment) for _ in range(2))
    with (
        running(one) as port,
        running(two) as other,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as here,
        httpx.Client(base_url=f"http://127.0.0.1:{other}") as there,
    ):
        mine, another = sign_in(here), sign_in(here)
        for http in (here, there):
            assert http.get("/", headers=mine).status_code == 200
        sign_out(here, mine)
        assert here.get("/", headers=mine).status_code == 303
        inside.beat(two)  # as it does every five seconds
        assert there.get("/", headers=mine).status_code == 303
        for http in (here, there):
            assert http.get("/", headers=another).status_code == 200
        later = Application(load({}, environment), environment)
        with running(later) as third:
            url = f"http://127.0.0.1:{third}/"
            assert httpx.get(url, headers=mine).status_code == 303, "after a restart too"


def test_sessions_that_are_over_anyway_are_forgotten(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    database.prepare()
    secret = database.deployment.secret("keyring")
    database.deployment.end_session("a", ends=100, now=50)
    database.deployment.end_session("b", ends=200, now=60)
    database.deployment.end_session("b", ends=200, now=60)
    assert database.deployment.ended_sessions() == {"a", "b"}
    database.deployment.end_session("c", ends=300, now=100)
    assert database.deployment.ended_sessions() == {"b", "c"}
    assert database.deployment.secret("keyring") == secret
    database.close()

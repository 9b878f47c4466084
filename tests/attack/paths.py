"""Attacks by path: what an account holds, calls that nobody reads, other origins."""

from __future__ import annotations

from tests import forked
from tests.attack.claims import claim
from tests.attack.stage import BOGUS, Stage

_HELD = (
    ("GET", "/v1/files"), ("POST", "/v1/files"), ("GET", "/v1/files/f/content"),
    ("DELETE", "/v1/files/f"), ("POST", "/v1/batches"), ("GET", "/v1/batches/b"),
    ("POST", "/v1/fine_tuning/jobs"), ("POST", "/v1/threads"), ("POST", "/v1/vector_stores"),
    ("GET", "/v1/organization/usage"), ("POST", "/v1/realtime/client_secrets"),
    ("GET", "/v1/responses"), ("PUT", "/v1/chat/completions"), ("DELETE", "/v1/models/ft:m"),
)  # fmt: skip

# Abort others' calls, change the weights, read others' prompts, delete a model, unload it.
_MANAGED = (
    ("POST", "/abort_request"), ("POST", "/v1/../abort_request"), ("POST", "/%61bort_request"),
    ("POST", "//abort_request"), ("POST", "/abort_request;a=b"), ("POST", "/generate/../pause"),
    ("GET", "/flush_cache"), ("POST", "/update_weights_from_disk"), ("POST", "/pause"),
    ("POST", "/sleep"), ("POST", "/v1/load_lora_adapter"), ("POST", "/collective_rpc"),
    ("GET", "/slots"), ("DELETE", "/api/delete"), ("POST", "/api/pull"), ("POST", "/api/create"),
    ("POST", "/api/v1/models/unload"), ("GET", "/get_server_info"), ("GET", "/metrics"),
)  # fmt: skip

# Spellings of a model call that a lenient server may read as one.
SPELLINGS = (
    "/v1/chat/completion%73", "/v1/chat/completions;a=b", "/v1/Chat/Completions",
    "/V1/CHAT/COMPLETIONS", "//v1//chat//completions", "/v1/chat%2Fcompletions",
    "/v1/chat/completions/", "/v1/chat/completions%20", "/v1/chat/%63ompletions?x=y",
    "/v1/chat/completions%3Bx",
)  # fmt: skip
_DOTS = (
    "/v1/../files", "/v1/chat/../files", "/v1/%2e%2e/files", "/v1/.%2E/files", "/v1/x%2f..%2ffiles",
    "/../../rollouts", "/v1/./files", "/v1/%5c..%5cfiles",
)  # fmt: skip


@claim("the operator's key opens no files, batches or other things that an account holds")
def what_an_account_holds(stage: Stage) -> None:
    rollout = stage.rollout()
    for method, path in _HELD:
        answer = stage.call(f"{rollout.path}/openai{path}", method=method)
        assert (answer.status, answer.refusal) == (403, "path_not_allowed"), (method, path)
    assert stage.provider.requests == []


@claim("an engine that asks for no key opens no path by which it is managed")
def how_an_engine_is_managed(stage: Stage) -> None:
    rollout = stage.rollout()
    for engine in ("sglang", "gpu-7", "GPU_7"):
        for method, path in _MANAGED:
            for header in ("X-Key: none", f"Authorization: Bearer {BOGUS}"):
                answer = stage.call(f"{rollout.path}/{engine}{path}", header, method=method)
                assert answer.status in (400, 403) and answer.refusal, (engine, method, path)
    assert stage.provider.requests == []
    assert stage.call(f"{rollout.path}/gpu-7/v1/chat/completions").status == 200
    assert stage.judged(rollout)["total_requests"] == 1


@claim("a response is read, continued or deleted by the rollout that it was answered only")
def another_rollouts_response(stage: Stage) -> None:
    owner, other = stage.rollout(), stage.rollout()
    answer = stage.call(f"{owner.path}/openai/v1/responses", body=b'{"model":"gpt-5","input":"hi"}')
    assert answer.status == 200
    named = answer.body.split(b'"id": "resp')[1].split(b'"')[0].decode()
    path = f"/openai/v1/responses/resp{named}"
    stage.provider.requests.clear()
    for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        refused = stage.call(f"{other.path}{path}{more}", method=method)
        assert (refused.status, refused.refusal) == (403, "path_not_allowed"), (method, more)
    assert stage.provider.requests == []
    stage.call(f"{owner.path}{path}", method="GET")
    assert len(stage.provider.requests) == 1


@claim("with the operator's key a model call in another spelling is refused or counted")
def spelled_past_the_operators_key(stage: Stage) -> None:
    rollout = stage.rollout()
    passed = sum(not stage.call(f"{rollout.path}/openai{path}").refusal for path in SPELLINGS)
    assert len(stage.provider.requests) == passed
    assert stage.judged(rollout)["total_requests"] == passed


@claim("with its own key a model call in another spelling is counted")
def spelled_past_the_reader(stage: Stage) -> None:
    rollout = stage.rollout()
    for path in SPELLINGS:
        answer = stage.call(f"{rollout.path}/mistral{path}", f"Authorization: Bearer {BOGUS}")
        assert answer.status == 200, path
    assert stage.judged(rollout)["total_requests"] == len(SPELLINGS)


@claim("no dot segment leaves an upstream's path, in any encoding")
def dot_segments(stage: Stage) -> None:
    rollout = stage.rollout()
    for upstream in ("openai", "mistral"):
        for path in _DOTS:
            answer = stage.call(f"{rollout.path}/{upstream}{path}", method="GET")
            assert answer.status in (400, 403) and answer.refusal, path
    assert stage.provider.requests == [] and stage.strict.heard() == []


@claim("with a token nothing on the operator's own machine is reached unless it is named")
def built_in_loopback_upstreams(stage: Stage) -> None:
    rollout = stage.rollout()
    for name in ("ollama", "vllm", "llamacpp", "lmstudio", "VLLM", "localhost", "127.0.0.1"):
        answer = stage.call(f"{rollout.path}/{name}/v1/models", method="GET")
        assert answer.status == 404 and answer.refusal, name
    assert stage.exchanges(rollout) == []


@claim("no upstream is the service itself, also by a mapped address")
def upstream_that_is_the_service(stage: Stage) -> None:
    port = stage.service.url.rpartition(":")[2]
    env = {"TRUEZERO_UPSTREAM_OPENAI": f"http://[::ffff:127.0.0.1]:{port}/r/a/mistral"}
    started = forked.run("serve", "--port", port, cwd=stage.service.home, env=env)
    assert started.returncode and "itself" in started.stderr, started.stderr


@claim("no path, header or absolute form leads to an origin that the operator did not name")
def another_origin(stage: Stage) -> None:
    rollout = stage.rollout()
    there = f"127.0.0.1:{stage.strict.url.rpartition(':')[2]}"  # an origin of another name
    path = f"{rollout.path}/openai/v1/chat/completions"
    assert stage.call(f"http://{there}{path}").status == 200
    assert stage.call(path, host=there).status == 200
    assert stage.call(path, f"Host: {there}").status in (200, 400)
    for name in ("X-Forwarded-Host", "X-Original-URL", "X-Rewrite-URL", "X-Upstream", "Forwarded",
                 "x-truezero-upstream", "x-truezero-url"):  # fmt: skip
        assert stage.call(path, f"{name}: http://{there}/").status == 200
    for upstream in (f"http:%2F%2F{there}", there, f"openai@{there}", f"openai%40{there}",
                     "169.254.169.254", "openai%00", "openai.evil.example"):  # fmt: skip
        answer = stage.call(f"{rollout.path}/{upstream}/v1/chat/completions")
        assert answer.status in (400, 404) and answer.refusal, upstream
    assert stage.strict.heard() == []

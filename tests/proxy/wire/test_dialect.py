"""Which names are kept: what a model or a reason can be called, and neither a text nor a key."""
# ruff: noqa: SLF001
# Private: caches do not grow with what agents send.

from __future__ import annotations

from classifier.records import Exchange
from proxy.wire import dialect, routes
from proxy.wire.dialect import ResponseFacts, model_name, word
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import chat, dump
from tests.tables import each

PROMPT = "Summarise the merger, code word zebra"
KEYS = (
    "sk-proj-abcdefghijklmnop1234", "sk-ant-api03-abcdefghijklmnop", "gsk_abcdefghijklmnop1234",
    "xai-abcdefghijklmnop1234", "hf_abcdefghijklmnop1234", "nvapi-abcdefghijklmnop1234",
    "AIzaSyabcdefghijklmnop1234", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi",
    "ghp_abcdefghijklmnop1234", "tz-cm9sbG91dA.abcdefghijklmnopqrst",
)  # fmt: skip


@each(
    "name",
    [
        "gpt-5", "claude-sonnet-4-5[1m]", "us.anthropic.claude-sonnet-5-v1:0", "gpt-oss:20b",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0",
        "@cf/meta/llama-3.1-8b-instruct", "Skywork/Skywork-Critic-Llama-3.1-70B", "openai/*",
        "hf-internal-testing/tiny-random-LlamaForCausalLM", "hf.co/bartowski/Q-GGUF:Q4_K_M",
        "/models/Qwen3-8B-Q4_K_M.gguf", "C:\\models\\m.gguf", "~typesafe/model#1", "a" * 200,
    ],
)  # fmt: skip
def test_what_models_are_called_is_kept(name: str) -> None:
    assert model_name(name) == name


@each("text", [PROMPT, "line\nbreak", "请总结这份文件", '{"role":"user"}', "a" * 201, "", *KEYS])
def test_a_text_or_a_key_is_no_name_of_a_model(text: str) -> None:
    assert model_name(text) is None


@each("text", [PROMPT, "a" * 65, "", "größer", *KEYS])
def test_a_text_or_a_key_is_no_word(text: str) -> None:
    assert word(text) is None


def test_a_text_is_not_remembered_as_names_are() -> None:
    before = dialect._known_model.cache_info().currsize, dialect._known_word.cache_info().currsize
    reading = ResponseFacts()
    for text in (PROMPT, *KEYS):
        reading.take_model(text)
        reading.take_finish_reason(text)
    assert reading.finish_reason == "unfit"
    after = dialect._known_model.cache_info().currsize, dialect._known_word.cache_info().currsize
    assert after == before


def said() -> Exchange:
    """Observe a call whose request, answer and headers have texts in place of names."""
    answer = chat(None, finish=PROMPT).replace(b"m-1", PROMPT.encode())
    asked = dump({"model": PROMPT, "messages": []})
    return observed(answer, headers={"x-request-id": PROMPT}, request=asked)


def test_a_prompt_where_a_name_belongs_is_not_kept() -> None:
    exchange = said()
    assert PROMPT[:20] not in repr(exchange)
    assert (exchange.model, exchange.answered_model) == (None, None)
    assert exchange.provider_request_id is None


def test_a_finish_reason_that_is_no_word_still_ends_the_answer() -> None:
    exchange = said()
    assert (exchange.finish_reason, exchange.cause) == ("unfit", None)
    silent = ResponseFacts()
    silent.take_finish_reason("")
    assert silent.finish_reason is None


def test_a_path_names_no_model_that_is_a_text() -> None:
    path = b"/v1beta/models/Summarise%20the%20merger:generateContent"
    assert routes.route("POST", path).model is None


def test_a_count_of_thousands_of_digits_says_nothing_of_a_stand_in() -> None:
    headers = {"x-litellm-attempted-fallbacks": "9" * 5_000}
    assert observed(chat(None), headers=headers).fallback is None

"""Which calls of LiteLLM get the rollout's header; the real one is run by `make integrations`."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.tables import each
from tests.truezero.sdk.test_current import SERVICE, rollout
from truezero.integrations import litellm as ours
from truezero.sdk.current import current

AT_OURS = f"{SERVICE}/openai/v1"


class BadRequestError(Exception):
    pass


class CustomLogger:
    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
        raise AssertionError("ours comes first")

    def told(self) -> str:
        return "a callback of LiteLLM's"


def get_llm_provider(*, model: str, custom_llm_provider: str | None) -> tuple[Any, ...]:
    provider, slash, name = model.partition("/")
    if not slash and not custom_llm_provider:
        raise BadRequestError
    known = {"groq": "https://api.groq.com"}
    return name, custom_llm_provider or provider, None, known.get(provider)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """LiteLLM as far as ours uses it."""
    made = SimpleNamespace(
        api_base=None,
        get_llm_provider=get_llm_provider,
        exceptions=SimpleNamespace(BadRequestError=BadRequestError),
    )
    logger = ModuleType("litellm.integrations.custom_logger")
    vars(logger)["CustomLogger"] = CustomLogger
    monkeypatch.setitem(sys.modules, "litellm", made)
    monkeypatch.setitem(sys.modules, "litellm.integrations", ModuleType("litellm.integrations"))
    monkeypatch.setitem(sys.modules, logger.__name__, logger)
    monkeypatch.delitem(vars(ours), "Truezero", raising=False)
    return made


def hooked(**kwargs: Any) -> Any:
    return asyncio.run(ours.Truezero().async_pre_call_deployment_hook(kwargs, "acompletion"))


def test_a_call_to_the_service_names_the_current_rollout() -> None:
    assert hooked(model="openai/x", api_base=AT_OURS) is None, "outside any rollout"
    token = current.set(rollout("r1"))
    try:
        named = hooked(model="openai/x", api_base=AT_OURS, extra_headers={"a": "b"})
        elsewhere = hooked(model="openai/x", api_base="https://api.openai.com/v1")
    finally:
        current.reset(token)
    assert named == {
        "model": "openai/x", "api_base": AT_OURS,
        "extra_headers": {"a": "b", "x-truezero-key": "tz-r1"},
    }  # fmt: skip
    assert elsewhere is None, "nobody else sees a rollout's key"


def test_a_call_that_ours_cannot_read_is_left_as_it_is(
    installed: SimpleNamespace,
) -> None:
    """LiteLLM fails a call whose hook raises."""

    def unreadable(**_: Any) -> None:
        raise AttributeError("a model that is no text")

    installed.get_llm_provider = unreadable
    assert hooked(model=object()) is None, "outside any rollout nothing is looked at"
    token = current.set(rollout("r2"))
    try:
        assert hooked(model=object()) is None
        assert hooked(model="m", api_base="http://[") is None
    finally:
        current.reset(token)


def test_it_is_a_callback_of_litellms() -> None:
    made = ours.Truezero()
    assert isinstance(made, CustomLogger)
    assert made.told() == "a callback of LiteLLM's"
    assert ours.Truezero is type(made)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = ours.Nothing


@each(
    "kwargs, environment, base",
    [
        ({"api_base": "a", "base_url": "b", "model": "openai/x"}, {"OPENAI_BASE_URL": "c"}, "a"),
        ({"base_url": "b", "model": "openai/x"}, {}, "b"),
        ({"model": "openai/x"}, {"OPENAI_BASE_URL": "c", "OPENAI_API_BASE": "d"}, "c"),
        ({"model": "openai/x"}, {"OPENAI_API_BASE": "d", "ANTHROPIC_API_BASE": "e"}, "d"),
        ({"model": "anthropic/x"}, {"OPENAI_API_BASE": "d"}, None),
        ({"model": "x", "custom_llm_provider": "openai"}, {"OPENAI_API_BASE": "d"}, "d"),
        ({"model": "groq/x"}, {"GROQ_API_BASE": "d"}, "https://api.groq.com"),
        ({"model": "x"}, {"OPENAI_API_BASE": "d"}, None),
        ({}, {"OPENAI_API_BASE": "d"}, None),
    ],
)
def test_the_address_of_a_call_is_known_from_where_litellm_reads_it(
    kwargs: dict[str, str], environment: dict[str, str], base: str | None
) -> None:
    assert ours.address(kwargs, environment) == base


def test_an_address_for_all_calls_is_known(installed: SimpleNamespace) -> None:
    installed.api_base = AT_OURS
    assert ours.address({}, {}) == AT_OURS

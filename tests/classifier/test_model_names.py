"""When two names mean one model."""

from __future__ import annotations

from itertools import combinations

from classifier.logical_calls import canonical, unsized

ONE_MODEL = (
    ("gpt-5", "GPT-5", "openai/gpt-5", "gpt-5-2025-08-07", "openai/gpt-5:nitro", "gpt-5@latest"),
    (
        "claude-sonnet-4",
        "claude-sonnet-4-20250514",
        "claude-sonnet-4@20250514",
        "anthropic/claude-sonnet-4:thinking",
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-20250514-v1:0",
        "publishers/anthropic/models/claude-sonnet-4@20250514",
    ),
    ("gemini-2.5-pro", "models/gemini-2.5-pro", "google/Gemini-2.5-Pro"),
    ("llama3-1-70b-instruct", "meta.llama3-1-70b-instruct-v1:0"),
    ("command-r", "cohere/command-r-08-2024"),
    ("deepseek-r1", "deepseek/deepseek-r1:free", "us.deepseek.deepseek-r1-v1:0"),
    ("qwen3:32b", "library/qwen3:32B"),
)
OTHERS = (
    "gpt-5-mini", "qwen3:4b", "qwen3:0.6b-q4_K_M", "gemma3n:e4b", "deepseek-v3",
    "ft:gpt-5:acme:one:a1", "ft:gpt-5:acme:two:b2", "claude-opus-4",
)  # fmt: skip


def test_prefix_region_date_suffix_and_case_make_no_other_model() -> None:
    for names in ONE_MODEL:
        assert len({canonical(name) for name in names}) == 1, names


def test_other_models_stay_apart() -> None:
    names = [*(names[0] for names in ONE_MODEL), *OTHERS]
    for one, two in combinations(names, 2):
        assert canonical(one) != canonical(two), (one, two)


def test_an_unknown_name_equals_none() -> None:
    assert canonical(None) is None
    assert unsized(None) is None


def test_a_size_can_be_left_out_where_only_one_is_meant() -> None:
    assert unsized("ollama/qwen3:32b") == unsized("qwen3") == "qwen3"
    assert unsized("ft:gpt-5:acme:one:a1") != unsized("ft:gpt-5:acme:two:b2")

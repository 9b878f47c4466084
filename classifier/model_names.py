"""Say when two names mean one model, as registrations, gateways and providers write them."""

from __future__ import annotations

import re
from functools import lru_cache

# Amazon Bedrock writes [region.]vendor.model-vN:M; inference profiles put the region in front.
# docs.aws.amazon.com/bedrock/latest/userguide/models-supported.html and
# inference-profiles-support.html
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|ap|apac|au|ca|jp|sa|me|af|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|google|luma|meta|minimax|mistral|moonshot"
    r"|moonshotai|nvidia|openai|qwen|stability|twelvelabs|writer|zai)\."
    r"(?P<name>.+?)(?:-v\d+)?"
)
# A date or "latest" behind a name: gpt-5-2025-08-07, claude-…-20250514, …@latest, …-08-2024.
_DATED = re.compile(r"[-@](?:\d{4}-?\d{2}-?\d{2}|\d{2}-\d{4}|\d{4}|latest)$")
# OpenRouter's :free and Bedrock's :0 choose a way to a model; Ollama's :32b is another model.
_SIZE = re.compile(r"[\w.-]*\d[bm]\b")
_FINE_TUNED = "ft:"


@lru_cache(maxsize=4096)
def canonical(model: str | None) -> str | None:
    """Return a model's name without provider prefix, region, date, ``:suffix`` and case.

    A suffix that names a size stays, and so does a fine-tune's whole name.
    """
    if model is None:
        return None
    name = model.casefold()
    if name.startswith(_FINE_TUNED):
        return name
    name, _, suffix = name.rpartition("/")[2].partition(":")
    match = _BEDROCK.fullmatch(name)
    name = _DATED.sub("", match["name"] if match else name)
    return f"{name}:{suffix}" if _SIZE.match(suffix.replace("_", "-")) else name


def unsized(model: str | None) -> str | None:
    """Return the canonical name without the size behind it, ``qwen3`` of ``qwen3:32b``."""
    name = canonical(model)
    return name and (name if name.startswith(_FINE_TUNED) else name.partition(":")[0])

"""Read who served an answer: its provider or region, its weights, whether another model stood in.

Only short technical words are taken: a header or a field may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from proxy.wire.dialect import Payload, Reading, parts, word

# Hugging Face's router (huggingface.co/docs/inference-providers), Azure OpenAI
# (learn.microsoft.com/azure/ai-services/openai, the region that answered), LiteLLM
# (docs.litellm.ai/docs/proxy/response_headers).
_SERVED_BY = (b"x-inference-provider", b"x-ms-region", b"x-litellm-model-region")
# How many models were given up before the one that answered. LiteLLM (docs.litellm.ai/docs/proxy/
# response_headers), Cloudflare AI Gateway (developers.cloudflare.com/ai-gateway/configuration/
# fallbacks) and Helicone (docs.helicone.ai/getting-started/integration-method/gateway-fallbacks).
_FALLBACKS = (b"x-litellm-attempted-fallbacks", b"cf-aig-step", b"helicone-fallback-index")
# Portkey states the target that answered (portkey.ai/docs/api-reference/response-schema), as
# "config.targets[0].targets[1]": the first of all is no fallback; another one may be one, or a
# load balancer's choice.
_PORTKEY = b"x-portkey-last-used-option-index"
_FIRST = re.compile(rb"(?:config)?(?:\.?targets\[0\])*|0")
HEADERS: frozenset[bytes] = frozenset((*_SERVED_BY, *_FALLBACKS, _PORTKEY))

# Where SGLang's OpenAI-compatible answers state the version of their weights
# (python/sglang/srt/utils/weight_versions.py; ``sglext``: sgl-project/sglang#40347). vLLM states it
# with no answer yet (vllm-project/vllm#49040, #54443).
_WEIGHED = ("metadata", "sglext")
_LONGEST = 64  # characters of one version, and of several
FIELDS: frozenset[str] = frozenset(("provider", "system_fingerprint", *_WEIGHED))
# "Google AI Studio", "Amazon Bedrock": openrouter.ai/docs/api-reference/overview (provider).
_NAME = re.compile(r"[A-Za-z0-9.-]{1,24}(?: [A-Za-z0-9.-]{1,24}){0,2}")


def served_by(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the provider or region that headers name; names in lower case."""
    for name in _SERVED_BY:
        if name in headers:
            return word(headers[name].decode("latin-1"))
    return None


def fallback(headers: Mapping[bytes, bytes]) -> bool | None:
    """Return whether headers say that another model than was asked answered; None: they don't."""
    counts = [headers[name] for name in _FALLBACKS if name in headers]
    stated = [int(value) > 0 for value in counts if value.isdigit() and len(value) < 4]
    if stated:
        return any(stated)
    return False if _PORTKEY in headers and _FIRST.fullmatch(headers[_PORTKEY]) else None


def take(reading: Reading, payload: Payload) -> None:
    """Take what an OpenAI-compatible payload states beside its model."""
    fingerprint = payload.get("system_fingerprint")
    if reading.system_fingerprint is None and isinstance(fingerprint, str):
        reading.system_fingerprint = word(fingerprint)
    take_provider(reading, payload.get("provider"))
    for place in _WEIGHED:
        take_weights(reading, payload.get(place))


def take_weights(reading: Reading, stated: object) -> None:
    """Take the version of the weights, or all that one answer spans, from where it is stated.

    SGLang: ``weight_version``, and ``weight_versions``, a list of ``{version, start, end}`` over
    the tokens of the answer (its ``update_weights_from_…`` with ``pause_generation``).
    """
    if not isinstance(stated, dict):
        return
    spans = [span.get("version") for span in parts(stated.get("weight_versions"))]
    known = reading.weight_version.split(",") if reading.weight_version else []
    for version in spans or [stated.get("weight_version")]:
        text = str(version) if type(version) is int else version
        if isinstance(text, str) and word(text) and text not in known:
            known.append(text)
    if known:
        reading.weight_version = _listed(known)


def _listed(versions: list[str]) -> str:
    """Return them with commas between; of too many the first and the last, or the last alone."""
    for some in (versions, [versions[0], versions[-1]]):
        if len(joined := ",".join(some)) <= _LONGEST:
            return joined
    return versions[-1]


def take_provider(reading: Reading, provider: object) -> None:
    """Take the name of a provider or region; blanks inside become hyphens."""
    if reading.served_by is None and isinstance(provider, str) and _NAME.fullmatch(provider):
        reading.served_by = word(provider.replace(" ", "-"))

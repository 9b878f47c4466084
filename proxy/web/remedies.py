"""Remedies of failures: one sentence for a cause."""

from __future__ import annotations

from collections.abc import Mapping

# By the reason that a cause's name ends in, or its code.
_BY_REASON: Mapping[str, str] = {
    "context_length": "Shorten the prompt, or choose a model with a longer context.",
    "content_filter": "Look at the task: the provider's filter blocks its content.",
    "too_large": "Send smaller requests.",
    "unsupported": "Remove the parameter that the model does not support.",
    "malformed": "Correct the request that the agent builds.",
    "wrong_endpoint": "Correct the base URL or path that the agent calls.",
    "lost_state": "Send the whole conversation as the provider gave it, signatures included.",
    "wrong_shape": "Correct the gateway: it answers in the shape of another API than was asked.",
    "harness_budget": "Raise the budget that the harness sets for a rollout.",
    "harness_refusal": "Look at the harness's own relay: no provider refused this.",
    "offline": "Start the endpoint or the tunnel that the base URL leads to.",
    "signature": "Check the secret that signs requests, and this machine's clock.",
    "proxy_auth": "Give the proxy between here and the provider its credentials.",
    "stalled": "Wait for the provider, or choose another region or model.",
}
_BY_SUBCATEGORY: Mapping[str, str] = {
    "auth": "Replace the API key, or give it access to this model.",
    "quota": "Add credit or raise the plan's limit, then run the affected rollouts again.",
    "model_not_found": "Correct the model's name, or get access to it for this account.",
    "rate_limit": "Run fewer rollouts at once, or raise the limit; retrying helps.",
    "provider_error": "Wait until the provider is back; retrying helps.",
    "rejected_request": "Correct the request: the same one is rejected again.",
}
_BY_RULE: Mapping[str, str] = {
    "zero_signal": "Check that the agent calls its model through the proxy: truezero doctor.",
    "unread_answers": "Open one of the calls: what came back is no answer in any known form.",
    "empty_answers": "Look at the model's settings: its answers hold no text and no tool call.",
    "never_answered": "Raise the agent's timeout: it gives up before an answer.",
    "unexplained_rejections": "Send one of the requests by hand: the provider gives no reason.",
}


# What to do about repeats that no failure left without a score, by the reason.
_BY_PART: Mapping[str, str] = {
    "undecided": "Look at the calls: evidence is missing, so nobody can say whether they count.",
    "not_judged": "Look at the runner's own error: no model was called.",
    "excluded": "Nothing, if the batch's policy is meant: it leaves these scores out.",
    "no_reward": "Score them: the agent finished, and no reward was reported.",
    "skipped": "Fix the cause, reset the breaker, then run them again.",
    "running": "Wait: their score is still to come.",
    "never_started": "Start them: they were planned, and never registered.",
}


def remedy_of_part(name: str) -> str:
    """Return what to do about repeats without a score, by the reason of a batch's `parts`."""
    return _BY_PART.get(name, "Look at one of them: what came is not what was to be measured.")


def remedy(fingerprint: str, subcategory: str | None, cause: str | None) -> str:
    """Return the remedy for a cause, as one sentence.

    Arguments:
        fingerprint: ``quota:429``, or ``suspected:`` and the rule.
        cause: ``v1:quota:openai:429:insufficient_quota``; None if none was proven.
    """
    if subcategory is None:
        rule = fingerprint.partition(":")[2]
        return _BY_RULE.get(rule, "Look at one of the rollouts.")
    reason = (cause or "").rpartition(":")[2]
    return _BY_REASON.get(reason, _BY_SUBCATEGORY[subcategory])

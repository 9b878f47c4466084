"""Decide where a call goes: targets, upstreams, headers, rollout keys, limits. No I/O."""

"""What the command's options ask for."""

from __future__ import annotations

import pytest

from truezero.runner import doctor
from truezero.runner.doctor import Wanted


def test_a_model_needs_its_upstream() -> None:
    named = doctor.wanted(["groq"], ["openrouter/openai/gpt-5"], ask=True)
    assert named == Wanted(upstreams=("groq",), models=(("openrouter", "openai/gpt-5"),), ask=True)
    for wrong in ("gpt-5", "/gpt-5", "openai/"):
        with pytest.raises(ValueError, match="UPSTREAM/MODEL"):
            doctor.wanted([], [wrong], ask=False)

"""Types of the SDK's keyword arguments beside the contract that they mirror."""

from __future__ import annotations

import json
from pathlib import Path

from truezero import models
from truezero.sdk.arguments import PolicyFacts, RolloutFilters


def test_types_name_every_term_of_a_policy_and_every_filter_of_the_service() -> None:
    terms = PolicyFacts.__annotations__.keys()
    assert terms == models.BatchPolicy.model_fields.keys()
    golden = Path(__file__).parent.parent.parent / "golden/openapi.json"
    listed = json.loads(golden.read_text("utf-8"))["paths"]["/rollouts"]["get"]["parameters"]
    asked = {parameter["name"] for parameter in listed if parameter["in"] == "query"}
    assert RolloutFilters.__annotations__.keys() == asked - {"after", "limit"}

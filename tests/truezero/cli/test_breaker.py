"""`truezero breaker`: which lanes a batch has stopped calling, and a reset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.truezero.cli.test_batches import truezero
from tests.truezero.driving import call, service
from truezero import Client, Skipped


@pytest.mark.slow
def test_a_breaker_is_shown_and_reset_by_its_command(tmp_path: Path) -> None:
    with (
        service(tmp_path, BREAKER_THRESHOLD="2") as (url, _provider, _accounts),
        Client(url) as client,
    ):
        batch = client.batch("b", model="gpt-5", upstream="openai")
        for n in range(2):
            with batch.rollout(f"t{n}") as rollout:
                call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        with pytest.raises(Skipped, match=r"truezero breaker reset b$"), batch.rollout("t2"):
            raise AssertionError("nothing is run")
        shown = truezero("breaker", "b", url=url)
        assert shown.returncode == 0, shown.stderr
        assert ": open, opened at" in shown.stdout
        assert "  skipped: t2\n" in shown.stdout
        assert shown.stdout.splitlines()[1].endswith(": t0, t1")
        (lane,) = json.loads(truezero("breaker", "b", "--json", url=url).stdout)["lanes"]
        assert (lane["skipped_total"], len(lane["tripped_by"])) == (1, 2)
        assert lane["probe_at"] == pytest.approx(lane["opened_at"] + 60)
        done = truezero("breaker", "reset", "b", url=url)
        assert ": half open" in done.stdout, done.stderr
        with batch.rollout("t3") as rollout:
            call(rollout.env["OPENAI_BASE_URL"])
        assert truezero("breaker", "b", url=url).stdout.startswith("no breaker is close to opening")
        for words in (["reset", "b", "c"], ["set", "b"], ["b", "--lane", "x"]):
            assert truezero("breaker", *words, url=url).returncode == 2

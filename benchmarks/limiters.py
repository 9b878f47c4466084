"""Other limiters in the place of ours, in benchmarks.pace: LiteLLM's limits, Inspect's connections.

Both are the releases that `make peers` and `make integrations` install.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.peers import LITELLM, LITELLM_ENV
from benchmarks.subjects import ROOT, clean_env

_HARNESSES = Path(os.environ.get("INTEGRATIONS", ROOT / ".venv" / "integrations"))
INSPECT = _HARNESSES / "inspect_ai" / "bin" / "python"

# https://docs.litellm.ai/docs/proxy/load_balancing: a deployment's rpm is enforced by this check.
# Processes share its count by Redis only, so each is given its part of the limit.
_LITELLM = """
model_list:
  - model_name: bench-model
    litellm_params:
      {{model: openai/bench-model, api_base: "{provider}/v1", api_key: sk-bench, rpm: {rpm}}}
router_settings: {{optional_pre_call_checks: [enforce_model_rate_limits]}}
litellm_settings: {{telemetry: false}}
general_settings: {{disable_spend_logs: true}}
"""

# https://inspect.aisi.org.uk/models-concurrency.html
_INSPECT = """
import json, sys, time
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.solver import solver

provider, agents, home = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
calls = open(home + "/calls", "w", buffering=1)

@solver
def calling():
    async def solve(state, generate):
        while True:
            began = time.monotonic()
            await get_model().generate("x" * 200)
            calls.write(json.dumps([int(state.sample_id), began, time.monotonic()]) + "\\n")
    return solve

model = get_model(
    "openai/bench-model", base_url=provider + "/v1", api_key="sk-bench", responses_api=False,
    config=GenerateConfig(adaptive_connections=True),
)
task = Task(dataset=[Sample(id=each, input="x") for each in agents], solver=calling())
eval(task, model=model, max_samples=len(agents), display="none", log_dir=home, score=False)
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that agents call by its URL."""

    url: str


@contextlib.contextmanager
def litellm(provider_url: str, *, requests: int, count: int) -> Iterator[list[Proxy]]:
    """Run LiteLLM's proxies, each with its part of a limit of requests a minute.

    Raises:
        FileNotFoundError: it is not installed.
    """
    if not LITELLM.exists():
        raise FileNotFoundError("litellm: make .venv/peers/litellm/.ready")
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truezero-pace-")))
        config = home / "config.yaml"
        config.write_text(_LITELLM.format(provider=provider_url, rpm=requests // count))
        started = []
        for _ in range(count):
            port = machine.free_port()
            where = ["--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
            command: list[str | Path] = [
                LITELLM,
                "--config",
                config,
                *where,
                "--telemetry",
                "False",
            ]
            env = clean_env() | LITELLM_ENV
            running = machine.running(command, core=None, env=env, cwd=home)
            started.append((port, stack.enter_context(running)))
        for port, process in started:
            machine.wait_for_port(port, process, timeout_s=240)
        yield [Proxy(f"http://127.0.0.1:{port}") for port, _ in started]


class InspectAgents:
    """Agents as samples of evaluations by Inspect, each of which calls again and again."""

    def __init__(self, homes: list[Path]) -> None:
        self._homes = homes

    def calls(self) -> list[tuple[int, float, float]]:
        """List the calls that ended: their agent, and when they began and ended, monotonic."""
        found = []
        for home in self._homes:
            with contextlib.suppress(FileNotFoundError):
                lines = (home / "calls").read_text().splitlines(keepends=True)
                found += [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
        return found


@contextlib.contextmanager
def inspect(provider_url: str, *, agents: int, count: int) -> Iterator[InspectAgents]:
    """Run evaluations in processes of their own, with their agents divided among them.

    Raises:
        FileNotFoundError: it is not installed.
    """
    if not INSPECT.exists():
        raise FileNotFoundError("Inspect: make .venv/integrations/inspect_ai/.ready")
    with ExitStack() as stack:
        homes = []
        for number in range(count):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="truezero-pace-"))
            homes.append(Path(folder))
            own = json.dumps(list(range(number, agents, count)))
            command: list[str | Path] = [INSPECT, "-c", _INSPECT, provider_url, own, folder]
            env = clean_env() | {"NO_COLOR": "1"}
            log = stack.enter_context((homes[-1] / "log").open("wb"))
            stack.enter_context(
                machine.running(command, core=None, env=env, cwd=homes[-1], log=log)
            )
        yield InspectAgents(homes)

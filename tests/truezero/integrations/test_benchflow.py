"""The plug-in for benchflow, on a package that is imported as benchflow is: registry first."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from truezero.integrations import benchflow as plugin
from truezero.integrations import benchflow_rollouts as glue
from truezero.integrations.attempts import Contact

# benchflow/__init__.py imports the registry, which calls plug-ins, before it imports rollouts.
PACKAGE = {
    "__init__.py": "from benchflow import registry\nfrom benchflow import rollout, evaluation\n",
    "registry.py": "from truezero.integrations.benchflow import plug\nplug()\n",
    "rollout_planes.py": """
class DefaultRolloutPlanes:
    async def ensure_litellm_runtime(self, **kwargs): ...
""",
    "rollout.py": """
class Rollout:
    async def connect(self): ...
    async def connect_as(self, role): ...
    async def cleanup(self): ...
    def _maybe_classify_api_error(self): ...
""",
    "evaluation.py": """
class Evaluation:
    _job_name, _config = "night", None
    async def run(self):
        return "ran"
""",
}
OWN = "benchflow.rollout"
GONE = "http://127.0.0.1:9"


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "benchflow"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRUEZERO_URL", GONE)
    monkeypatch.setenv(glue.UPSTREAM, "openai")
    monkeypatch.setattr(glue, "_told", set())
    monkeypatch.setattr(glue, "_unsupported", [])
    monkeypatch.setattr(glue, "_measured_jobs", {})
    monkeypatch.setattr(glue, "_contact", Contact(glue._goes_on))
    finders = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchflow"]:
        del sys.modules[name]


def wrapped(name: str = "cleanup") -> Any:
    """Where the code of a rollout's method comes from."""
    method = getattr(importlib.import_module("benchflow").rollout.Rollout, name)
    return method.__code__.co_filename


def test_rollouts_are_wrapped_while_benchflow_is_being_imported(harness: Path) -> None:
    before = list(sys.meta_path)
    assert wrapped().endswith("benchflow_rollouts.py")
    assert wrapped("connect_as").endswith("benchflow_rollouts.py")
    assert sys.meta_path == before, "nothing stays in the way of later imports"
    rollout = sys.modules[OWN]
    assert rollout.__file__ == str(harness / "rollout.py")
    assert rollout.Rollout.cleanup.__name__ == "cleanup"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TRUEZERO_URL", ""), ("TRUEZERO_BENCHFLOW", "off"), ("TRUEZERO_BENCHFLOW", "0")],
)
@pytest.mark.usefixtures("harness")
def test_nothing_is_touched_without_a_service_or_when_turned_off(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    before = list(sys.meta_path)
    assert wrapped() == str(Path(sys.modules[OWN].__file__ or ""))
    assert sys.meta_path == before


@pytest.mark.usefixtures("harness")
def test_rollouts_that_were_imported_before_are_wrapped_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "off")
    importlib.import_module("benchflow")
    monkeypatch.delenv("TRUEZERO_BENCHFLOW")
    plugin.plug()
    assert wrapped().endswith("benchflow_rollouts.py")


def test_a_release_without_our_seams_is_left_alone_and_said_so(
    harness: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = PACKAGE["rollout.py"].replace("_maybe_classify_api_error", "_classify")
    (harness / "rollout.py").write_text(text)
    assert wrapped() == str(harness / "rollout.py")
    assert "not supported, it has no ['_maybe_classify_api_error']" in caplog.text


def runs() -> Any:
    return asyncio.run(importlib.import_module("benchflow").evaluation.Evaluation().run())


@pytest.mark.usefixtures("harness")
def test_a_job_that_did_not_ask_for_truezero_runs_without_the_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [runs(), runs()] == ["ran", "ran"]
    [line] = caplog.messages
    assert line.startswith("truezero: benchflow goes on unmeasured (TRUEZERO_BENCHFLOW=on would")
    assert f"cannot reach a truezero service at {GONE}" in line


@pytest.mark.usefixtures("harness")
def test_a_job_that_asked_for_it_does_not_start_without_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "on")
    with pytest.raises(ValueError, match=r"^truezero: no job is started: cannot reach"):
        runs()  # benchflow's command prints a ValueError, and ends with 1
    monkeypatch.delenv(glue.UPSTREAM)
    with pytest.raises(ValueError, match=r"^truezero: no job is started: set TRUEZERO_BENCHFLOW_"):
        runs()


def test_a_job_that_asked_for_it_does_not_start_on_a_release_without_our_seams(
    harness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "on")
    text = PACKAGE["rollout.py"].replace("_maybe_classify_api_error", "_classify")
    (harness / "rollout.py").write_text(text)
    with pytest.raises(
        ValueError, match=r"^truezero: no job is started: this release of benchflow"
    ):
        runs()


def test_the_entry_point_is_the_plug_in() -> None:
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    [line] = pyproject.split('[project.entry-points."benchflow.agents"]\n')[1].splitlines()[:1]
    module, _, name = line.split('"')[1].partition(":")
    assert getattr(importlib.import_module(module), name) is plugin.plug

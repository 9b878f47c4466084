"""How an agent ended where its exit code does not tell: what it wrote into a file of its own.

Only the name of an ending is used; nothing else of the file is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path, PurePath

from truezero.integrations import mini_swe_agent
from truezero.runner.bypasses import Circumstances
from truezero.sdk.arguments import OutcomeFacts

_MINI_OUTPUT = ("-o", "--output")
_MINI_HOME = "MSWEA_GLOBAL_CONFIG_DIR"


def mini_trajectory(seen: Circumstances) -> PurePath:
    """Return where `mini` writes its trajectory (minisweagent/run/mini.py, 2.4.6).

    Its own default is under platformdirs' user_config_dir, here as on Linux.
    """
    for word, after in zip_longest(seen.words, seen.words[1:], fillvalue=""):
        name, joined, value = word.partition("=")
        if name in _MINI_OUTPUT:
            return PurePath(value if joined else after)
        if word.startswith("-o"):
            return PurePath(word[2:])
    config = seen.environment.get("XDG_CONFIG_HOME") or seen.home / ".config"
    home = seen.environment.get(_MINI_HOME) or PurePath(config, "mini-swe-agent")
    return PurePath(home, "last_mini_run.traj.json")


def noted(file: PurePath | None) -> Callable[[], OutcomeFacts | None]:
    """Note a trajectory before an agent starts.

    The function that is returned says how the agent ended: None if the file was not written
    since, is no trajectory, or names no ending of the agent's own.
    """
    before = None if file is None else _written_ns(file)

    def said() -> OutcomeFacts | None:
        if file is None or _written_ns(file) in (None, before):
            return None
        try:
            return mini_swe_agent.ending(mini_swe_agent.trajectory_info(Path(file)))
        except (OSError, ValueError, AttributeError):
            return None

    return said


def _written_ns(file: PurePath) -> int | None:
    """Return when a file was last written, in ns; None if there is none."""
    try:
        return Path(file).stat().st_mtime_ns
    except OSError:
        return None

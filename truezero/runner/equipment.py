"""A command made ready: pointed at the service, with the files that it needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from truezero import models
from truezero.runner import agents, recognition

_SETTINGS_BYTES = 1 << 20


@contextmanager
def equipped(
    command: Sequence[str], rollout: models.RolloutRegistered, url: str
) -> Iterator[agents.Equipment]:
    """Prepare a command whose calls go through the service; write the files it needs."""
    with tempfile.TemporaryDirectory(prefix="truezero-agent-") as folder:
        equipment = agents.equip(
            command,
            rollout,
            os.environ,
            service_host=urlsplit(url).hostname or "",
            folder=PurePath(folder),
            exists=lambda path: Path(path).is_file(),
            read=_settings,
            look=lambda word: recognition.look(word, os.environ.get("PATH")),
        )
        for path, content in equipment.files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(content, encoding="utf-8")
        yield equipment


def _settings(path: PurePath) -> str | None:
    """Return the text of a settings file, if there is one of a plausible size."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_SETTINGS_BYTES)
    except OSError:
        return None
    return text.decode("utf-8", "replace")

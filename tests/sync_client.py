"""The blocking client is made of the awaited one: ``python -m tests.sync_client`` writes it.

Names and keywords are replaced token by token, so that both say the same and stay in step.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

SDK = Path(__file__).parent.parent / "truezero" / "sdk"
SOURCE, MADE = SDK / "_async", SDK / "_sync"

_NAMES = {
    "AsyncBatch": "Batch",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "AsyncGenerator": "Generator",
    "AsyncIterator": "Iterator",
    "AsyncRollout": "Rollout",
    "AsyncStop": "Stop",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "_async": "_sync",
    "aclose": "close",
    "aclosing": "closing",
    "aiter_bytes": "iter_bytes",
    "async_sleep": "sleep",
    "run_in_tasks": "run_in_threads",
}
_DROPPED = frozenset({"async", "await"})
_NEVER = re.compile(r"Awaitable\[((?:[^\[\]]|\[[^\[\]]*\])*)\]")  # what blocks returns the value
_WORDS = (
    (", for asyncio.", "; safe to share between threads."),
    ("``async with``", "``with``"),
    ("several at a time", "in threads"),
    (
        "The client, written for asyncio; ``_sync`` is made of it by",
        "The client that blocks, made of ``_async`` by",
    ),
)
_HEAD = "# Made of truezero/sdk/_async by `python -m tests.sync_client`: change it there.\n"


def made(text: str) -> str:
    """Return the source of a module that blocks, of one that is awaited; unformatted."""
    for old, new in _WORDS:
        text = text.replace(old, new)
    text = _NEVER.sub(r"\1", text).replace("Awaitable, ", "")
    text = re.sub(r"AsyncGenerator\[(\w+), None\]", r"AsyncGenerator[\1, None, None]", text)
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token in reversed([each for each in tokens if each.type == tokenize.NAME]):
        (row, start), (_, end) = token.start, token.end
        line = lines[row - 1]
        if token.string in _DROPPED:
            lines[row - 1] = line[:start] + line[end:].removeprefix(" ")
        elif token.string in _NAMES:
            lines[row - 1] = line[:start] + _NAMES[token.string] + line[end:]
    return _HEAD + "".join(lines)


def generated() -> dict[str, str]:
    """Return the modules of the blocking client by file name, formatted."""
    return {file.name: formatted(made(file.read_text("utf-8"))) for file in SOURCE.glob("*.py")}


def formatted(text: str) -> str:
    """Format a source as the project's is, its imports in order."""
    ours = 'lint.isort.known-first-party=["truezero"]'  # also where the file is not there yet
    for command in (
        ["check", "--select=I,UP028", "--fix", "--unsafe-fixes", f"--config={ours}"],
        ["format"],
    ):
        run = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename",
             str(MADE / "made.py"), "-"],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = run.stdout
    return text


def main() -> None:
    """Write the blocking client."""
    for name, text in generated().items():
        (MADE / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()

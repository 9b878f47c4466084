"""What an agent's own output shows: that it never began, and what ended it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from truezero.audit.agent_logs import (
    NO_SANDBOX,
    NOT_FOUND,
    NOT_LOADED,
    REFUSED,
    agent_log,
    read_log,
)

TRACE = "Traceback (most recent call last):\n"
RICH = """\
╭───────────── Traceback (most recent call last) ─────────────╮
│ /opt/venv/lib/python3.12/site-packages/helper/run.py:14 in   │
│ main                                                         │
│ ❱ 14 │   from helper.core import loop                        │
╰──────────────────────────────────────────────────────────────╯
"""
# (output, why the agent never began)
NEVER = (
    ("\x1b[?2004lbash: helper: command not found\r\nroot@0c1:/app# \r\nexit\r\n", NOT_FOUND),
    ("/usr/local/bin/helper: line 3: /opt/v/bin/python: No such file or directory", NOT_FOUND),
    ("/usr/bin/env: ‘node’: No such file or directory", NOT_FOUND),
    ("sh: 1: helper: not found", NOT_FOUND),
    ("zsh: command not found: helper", NOT_FOUND),
    ("bash: /root/.local/bin/helper: Permission denied", NOT_FOUND),
    ("bash: /opt/helper: cannot execute binary file: Exec format error", NOT_FOUND),
    ("OCI runtime exec failed: exec failed: unable to start container process: x", NO_SANDBOX),
    ("Error response from daemon: container 3f is not running", NO_SANDBOX),
    (("Usage: helper run [OPTIONS]\nTry 'helper run --help' for help.\n"
     "╭─ Error ───╮\n│ No such option: --loud    │\n╰───────────╯\n"), REFUSED),
    ("usage: helper [-h] task\nhelper: error: unrecognized arguments: --loud", REFUSED),
    (("error: unexpected argument '--loud' found\n\nUsage: helper exec [OPTIONS]\n\n"
     "For more information, try '--help'."), REFUSED),
    ("error: unknown option '--loud'", REFUSED),
    ("Error: unknown flag: --loud\nUsage:\n  helper run [flags]\n\nFlags:\n  -h  help", REFUSED),
    ("/x/a.py:7: UserWarning: no cache\n  warn()\n" + TRACE
     + '  File "/x/m.py", line 1, in <module>\n'
     "    import gone\nModuleNotFoundError: No module named 'gone'", NOT_LOADED),
    ("Helper 1.2\n" + RICH + "ImportError: cannot import name 'loop'", NOT_LOADED),
    (TRACE + '  File "/usr/bin/helper", line 5, in <module>\n    app()\n'
     '  File "/usr/lib/python3/site-packages/typer/main.py", line 779, in get_click_type\n'
     "    raise RuntimeError(f'x')\nRuntimeError: Type not yet supported: int | None", NOT_LOADED),
    (("node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n"
     "Error: Cannot find module '/opt/helper/cli.js'\n    at x (y:1:2)\n\nNode.js v20.11.0"),
     NOT_LOADED),
    ("helper: error while loading shared libraries: libssl.so.3: cannot open shared object file",
     NOT_LOADED),
    ("helper: /lib/libc.so.6: version `GLIBC_2.38' not found (required by helper)", NOT_LOADED),
)  # fmt: skip


@pytest.mark.parametrize(("output", "why"), NEVER)
def test_an_agent_that_a_launcher_or_a_loader_ended_never_began(output: str, why: str) -> None:
    assert agent_log(output).never_began == why


STEPS = "\n".join(f"step {n}: looked at file_{n}.py" for n in range(9)) + "\n"
BEGAN = (
    "",
    STEPS + "bash: foo: command not found",  # a tool's
    STEPS + TRACE + "  File \"/a/b.py\", line 2\nModuleNotFoundError: No module named 'numpy'",
    STEPS + "usage: ls [-l]\nls: error: unrecognized arguments: --x\nI will use another flag.",
    TRACE + "  File \"/opt/helper/loop.py\", line 90, in step\nKeyError: 'plan'",
    TRACE
    + '  File "/a.py", line 2\nValueError: retried\n'
    + STEPS
    + "ModuleNotFoundError: No module named 'numpy'",
    "The script fails with: bash: make: command not found\nI installed it.",
    "/x/a.py:7: UserWarning: no cache\n  warn()\n",
    "You asked for the usage: it is described in README",
    json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": "Hi"}})
    + "\nbash: foo: command not found",
)


@pytest.mark.parametrize("output", BEGAN)
def test_an_agent_that_may_have_worked_is_not_said_to_have_never_begun(output: str) -> None:
    assert agent_log(output).never_began is None


def event(**fields: object) -> str:
    return json.dumps(fields) + "\n"


SAID = event(type="assistant", message={"model": "m", "content": [{"type": "text", "text": "Hi"}]})
DEAD = event(type="assistant", message={"model": "<synthetic>", "content": [
    {"type": "text", "text": "API Error: 529 overloaded"}]})  # fmt: skip
OVERLOADED = event(
    type="result", is_error=True, result='API Error: 529 {"error":{"type":"overloaded_error"}}',
    usage={"input_tokens": 4, "output_tokens": 6},
)  # fmt: skip
TURN = event(type="turn.completed", usage={"input_tokens": 30, "output_tokens": 5})
FAILED = event(type="turn.failed", error={"message": "unexpected status 401 Unauthorized: no key"})
# (output, model answered, tokens, words of the error)
READ = (
    (SAID + event(type="result", result="Done", usage={"input_tokens": 4, "output_tokens": 6}),
     True, 10, None),
    (DEAD + OVERLOADED, True, 10, "529"),
    (SAID + FAILED, True, None, "401"),
    (FAILED, None, None, "401"),
    (event(type="error", message="stream error: 503; retrying 1/5") + SAID + TURN, True, 35, None),
    ('Solved.\n{\n  "output": "Solved.",\n  "usage": {\n    "total_tokens": 120\n  }\n}\n',
     True, 120, None),
    ("Credit balance is too low\n", None, None, "Credit"),
    (STEPS + "litellm.RateLimitError: RateLimitError: OpenAIException - slow down", None, None,
     "RateLimitError"),
    (("10:00:01 - helper:INFO: started\n10:00:02 - helper:INFO: step\n10:00:03 - helper:INFO: a\n"
     "10:00:04 - helper:ERROR: retry.py:9 - openai.AuthenticationError: Error code: 401 - bad key\n"
     "<html>\nlines of a page\n</html>\n10:00:05 - helper:INFO: state is now RATE_LIMITED"),
     None, None, "401"),
    (STEPS + "litellm.RateLimitError: slow down\n" + STEPS, None, None, None),
    (STEPS + "I made it raise openai.RateLimitError: slow down", None, None, None),
    (STEPS + "ConnectionError: HTTP 503 at https://shop.example/api", None, None, None),
)  # fmt: skip


@pytest.mark.parametrize(("output", "answered", "tokens", "error"), READ)
def test_an_agents_output_shows_answers_tokens_and_what_ended_it(
    output: str, answered: bool | None, tokens: int | None, error: str | None
) -> None:
    log = agent_log(output)
    assert (log.output, log.tokens) == (answered, tokens)
    assert (log.error is None) == (error is None)
    assert error is None or error in (log.error.text if log.error else "")


def test_of_a_long_log_both_ends_are_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "agent.log"
    file.write_bytes(b"start\n" + b"x" * 5_000_000 + b"\nend")
    assert len(read_log(file)) < 2_100_000
    assert read_log(file).startswith("start\n")
    assert read_log(file).endswith("\nend")
    assert read_log(tmp_path / "none") == ""

"""What agents read and write: prose, code, logs, tables, other scripts; made from a seed."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from random import Random

_WHO = (
    "The scheduler",
    "This function",
    "The parser",
    "Our importer",
    "The queue",
    "A worker",
    "The test",
    "The second migration",
    "The cache",
    "The invoice service",
    "The caller",
)
_DOES = (
    "reads the whole file before it decides",
    "keeps a reference to the old connection",
    "returns early when the list is empty",
    "sorts the rows by their due date",
    "is called twice because the retry has no limit",
    "drops the last byte of each record",
    "waits for a lock that nobody releases",
    "compares strings where it should compare dates",
    "assumes that the header always comes first",
    "writes its result next to the input",
)
_WHY = (
    "so the third case fails",
    "which is what the issue describes",
    "as the log shows",
    "and nobody noticed until the clocks changed",
    "although the documentation says otherwise",
    "but only on a cold start",
    "when two of them run at once",
    "unless the flag is set",
    "so I will change the smallest thing that helps",
    "and that explains the odd total",
)
_NAMES = (
    "rows",
    "ledger",
    "window",
    "orders",
    "node",
    "buffer",
    "total",
    "entry",
    "cursor",
    "session",
    "amount",
    "target",
    "batch_size",
    "offset",
    "currency",
    "retry_count",
)
_VERBS = ("load", "merge", "split", "close", "render", "collect", "normalise", "apply", "resolve")
_FILES = (
    "src/ledger/window.py",
    "src/orders/merge.py",
    "tests/test_window.py",
    "README.md",
    "pkg/cursor/cursor.go",
    "web/src/session.ts",
    "Makefile",
    "lib/render.rs",
)
_CJK = (
    "这个函数在列表为空时会提前返回。",
    "请检查第三个测试用例为什么失败。",
    "我们需要把日期转换成协调世界时。",
    "日志显示连接在十秒后被关闭了。",
    "この関数は空のリストを受け取ると例外を投げます。",
    "注文の合計金額が一円ずれています。",
    "設定ファイルを読み直してから再実行してください。",
    "이 함수는 두 번 호출될 때 실패합니다.",
    "정렬 순서를 다시 확인해 주세요.",
    "修改之后所有测试都通过了。",
)
_LEVELS = ("INFO", "DEBUG", "WARN")


def sentence(rng: Random) -> str:
    return f"{rng.choice(_WHO)} {rng.choice(_DOES)}, {rng.choice(_WHY)}."


def prose(rng: Random, sentences: int) -> str:
    return " ".join(sentence(rng) for _ in range(sentences))


def cjk(rng: Random, sentences: int) -> str:
    return "".join(rng.choice(_CJK) for _ in range(sentences))


def name(rng: Random) -> str:
    return f"{rng.choice(_VERBS)}_{rng.choice(_NAMES)}"


def path(rng: Random) -> str:
    return rng.choice(_FILES)


def code(rng: Random, functions: int) -> str:
    """Python functions, one below the other."""
    return "\n\n".join(_function(rng) for _ in range(functions))


def _function(rng: Random) -> str:
    one, two, three = rng.sample(_NAMES, 3)
    return (
        f"def {name(rng)}({one}: list[int], {two}: int = {rng.randrange(900)}) -> int:\n"
        f'    """{sentence(rng)}"""\n'
        f"    {three} = 0\n"
        f"    for i, value in enumerate({one}):\n"
        f"        if value % {rng.randrange(2, 90)} == 0 and i < {two}:\n"
        f"            {three} += value * {rng.randrange(3, 40)}\n"
        f"    return {three}"
    )


def log(rng: Random, lines: int) -> str:
    """Log lines with times, levels and ids."""
    second = rng.randrange(40_000)
    rows: list[str] = []
    for _ in range(lines):
        second += rng.randrange(1, 9)
        stamp = f"2026-03-11T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        rows.append(f"{stamp} {rng.choice(_LEVELS)} [{rng.randbytes(4).hex()}] {sentence(rng)}")
    return "\n".join(rows)


def report(rng: Random, rows: int) -> str:
    """A report of a build tool, padded with long runs of blanks and rules."""
    lines = ["=" * 160]
    for _ in range(rows):
        lines.append(f"{name(rng)}{' ' * rng.randrange(90, 240)}{rng.randrange(100)}%")
        lines.append(rng.choice("-=.") * rng.choice((80, 120, 160)))
    return "\n".join(lines)


def padded(rng: Random, lines: int) -> str:
    """Lines of a terminal that was wide: a word, and blanks to the end."""
    return "\n".join(f"{name(rng)}{' ' * rng.randrange(500, 3_000)}|" for _ in range(lines))


def tree(rng: Random, files: int) -> str:
    """A listing of files."""
    return "\n".join(
        f"-rw-r--r-- 1 dev dev {rng.randrange(90_000):>7} Mar 11 10:{rng.randrange(60):02} "
        f"{name(rng)}.py"
        for _ in range(files)
    )


def hexdump(rng: Random, lines: int) -> str:
    """Rows of a hex dump."""
    return "\n".join(f"{16 * i:08x}: {rng.randbytes(16).hex(' ', 2)}" for i in range(lines))


def base64_text(rng: Random, size: int) -> str:
    """Base64 of random bytes, ``size`` characters or a little more."""
    return base64.b64encode(rng.randbytes(size * 3 // 4)).decode()


def table_json(rng: Random, rows: int) -> str:
    """A JSON array of records, as tools return."""
    return json.dumps(
        [
            {
                "id": rng.randrange(10**6),
                "name": name(rng),
                "amount": rng.randrange(10**5) / 100,
                "note": sentence(rng),
            }
            for _ in range(rows)
        ]
    )


# Explanations of tool-call syntax, as an agent that works on agents gives: none of it is a call.
MARKUP: Sequence[str] = (
    (
        "Hermes-style models wrap each call in tags:\n\n```xml\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n```\n\n'
        "The server turns that into `tool_calls`, so your client never sees `<tool_call>` itself."
    ),
    (
        'Older Claude prompts used `<function_calls><invoke name="search">…</invoke>'
        "</function_calls>`; the Messages API replaced that by `tool_use` blocks."
    ),
    (
        'Llama 3.1 prints `<|python_tag|>brave_search.call(query="fjords")` and Mistral '
        '`[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}}]`, so the parser has to know both.'
    ),
    (
        "In the trace you pasted, `<|channel|>commentary to=functions.lookup <|message|>{}` is "
        "harmony format. Set `--tool-call-parser openai` and it will be parsed for you."
    ),
    (
        'A call looks like {"type": "function", "function": {"name": "lookup", "arguments": "{}"}} '
        "in the request log; DeepSeek writes `<｜tool▁calls▁begin｜>` before it."
    ),
)
# Agents whose protocol is text: they offer no tools and read these from the answer.
BLOCKS: Sequence[str] = (
    "```bash\nsed -n 1,80p {path}\n```",
    "```bash\ncd /testbed && grep -rn '{name}' src | head -20\n```",
    "<read_file>\n<path>{path}</path>\n</read_file>",
    (
        "<execute_command>\n<command>python -m pytest -q {path}</command>\n"
        "<requires_approval>false</requires_approval>\n</execute_command>"
    ),
    "Action: search\nAction Input: {name}",
    '```json\n{{"action": "open", "path": "{path}"}}\n```',
    '<tool_call>\n{{"name": "view", "arguments": {{"path": "{path}"}}}}\n</tool_call>',
    "{path}\n<<<<<<< SEARCH\n    limit = 3\n=======\n    limit = 4\n>>>>>>> REPLACE",
)


def block(rng: Random, style: int) -> str:
    """One call of a text protocol, ``style`` chooses which."""
    return BLOCKS[style % len(BLOCKS)].format(path=path(rng), name=name(rng))

"""``python -m tests.priced_models`` writes the names of priced models that the classifier knows.

They are those of the installed price table (github.com/pydantic/genai-prices), as
`classifier.logical_calls.canonical` has them. The classifier keeps its own copy, since an export is
judged without the service's packages.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from textwrap import fill

from genai_prices import data_snapshot

from classifier.logical_calls import canonical

FILE = Path(__file__).parent.parent / "classifier" / "data" / "priced_models.toml"


def version() -> str:
    """The installed price table's."""
    return metadata.version("genai-prices")


def names() -> frozenset[str]:
    """Every model of the table, by its canonical name."""
    providers = data_snapshot.get_snapshot().providers
    found = {canonical(str(model.id)) for provider in providers for model in provider.models}
    return frozenset(name for name in found if name and not set(name) - _PLAIN)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._:@+")


def source() -> str:
    """What the file says of the installed table."""
    rows = fill(" ".join(sorted(names())), 118, break_long_words=False, break_on_hyphens=False)
    return f'''# Names of models with a price; written by `python -m tests.priced_models`.
# As `canonical` in classifier/logical_calls.py has them.

version = "{version()}"  # of the price table, genai-prices (github.com/pydantic/genai-prices)
names = \'\'\'
{rows}\'\'\'
'''


if __name__ == "__main__":
    FILE.write_text(source(), "utf-8")

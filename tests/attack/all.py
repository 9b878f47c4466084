"""All attacks; the order of the imports is theirs."""

from __future__ import annotations

from tests.attack import (
    attribution,
    control,
    endings,
    freezing,
    identity,
    keys,
    looking,
    others,
    outages,
    paths,
    spellings,
    storage,
    validity,
    ways,
    wire,
)
from tests.attack.claims import CLAIMS as _REGISTERED
from tests.attack.tricks import TRICKS as _TRIED

_MODULES = (keys, paths, identity, control, wire, attribution, validity, looking, freezing, storage)
CLAIMS = sorted(
    _REGISTERED, key=lambda each: [m.__name__ for m in _MODULES].index(each.attack.__module__)
)

_FAMILIES = (outages, spellings, others, endings, ways)  # whose import registers
TRICKS = tuple(_TRIED)

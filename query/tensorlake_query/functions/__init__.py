"""The built-in functions, by name: one small file a group, one table here."""

from tensorlake_query.functions.aggregate.aggregates import AGGREGATES
from tensorlake_query.functions.array import (
    elements,
    geometry,
    polygons,
    reductions,
    shape,
    similarity,
    tokens,
)
from tensorlake_query.functions.array import points as places
from tensorlake_query.functions.registry import Function
from tensorlake_query.functions.scalar import choices, conditional, dates, math, rows
from tensorlake_query.functions.text import search
from tensorlake_query.functions.text import strings as text
from tensorlake_query.functions.window.windows import WINDOWS

_GROUPS = (
    shape, rows, reductions, elements, math, text, search, similarity, tokens, geometry, polygons,
    places, conditional, choices, dates,
)  # fmt: skip
FUNCTIONS: dict[str, Function] = {
    function.name: function for group in _GROUPS for function in group.FUNCTIONS
}

# Spellings of Deep Lake that mean the same.
ALIASES = {"AMIN": "ARRAY_MIN", "AMAX": "ARRAY_MAX", "INNER_PRODUCT": "DOT", "PROD": "ARRAY_PROD"}


def is_function(name: str) -> bool:
    """Tell whether the language itself has a function of this name."""
    upper = name.upper()
    return upper in FUNCTIONS or upper in ALIASES or upper in AGGREGATES or upper in WINDOWS


__all__ = ["ALIASES", "FUNCTIONS", "Function", "is_function"]

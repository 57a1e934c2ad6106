"""The built-in functions, by name: one small file a group, one table here."""

from tensorlake_query.functions import (
    conditional,
    geometry,
    math,
    reductions,
    rows,
    shape,
    similarity,
    text,
)
from tensorlake_query.functions.registry import Function

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for group in (shape, rows, reductions, math, text, similarity, geometry, conditional)
    for function in group.FUNCTIONS
}

# Spellings of Deep Lake that mean the same.
ALIASES = {"AMIN": "ARRAY_MIN", "AMAX": "ARRAY_MAX", "INNER_PRODUCT": "DOT"}

__all__ = ["ALIASES", "FUNCTIONS", "Function"]

"""Element by element: ABS, SIGN, SQRT, EXP, LOG, POW, MOD, SIN, COS, TAN, FLOOR, CEIL, ROUND, CLIP.

LOGICAL_AND and LOGICAL_OR are AND and OR of arrays.

Integers give float64 where the answer is not whole. The rest is NumPy's: the square root of −1 is
NaN, the logarithm of 0 is −inf, and ROUND goes to the even neighbour at .5.
"""

from collections.abc import Callable

import numpy as np

from tensorlake_query.functions.registry import Function, Site
from tensorlake_query.functions.scalar.operators import apply_ufunc, bind_arithmetic, bind_logic
from tensorlake_query.values.bound import Bound, Constant, show
from tensorlake_query.values.source import AnyArray

MAX_DECIMALS = 300  # beyond any float64 digit
INTEGER_DIGITS = 20  # of the largest 64-bit integer


def _bind(function: Callable[..., AnyArray], cost: float) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        return apply_ufunc(site, function, cost=cost)

    return bind


def _bind_real(function: Callable[..., AnyArray], cost: float) -> Callable[[Site], Bound]:
    def real(values: AnyArray) -> AnyArray:
        # NumPy would give float16 for a small integer type
        return function(values.astype(np.float64) if values.dtype.kind in "biu" else values)

    return _bind(real, cost)


def _abs(values: AnyArray) -> AnyArray:
    return values if values.dtype.kind == "b" else np.abs(values)


def _bind_round(site: Site) -> Bound:
    decimals = 0
    if len(site.args) > 1:
        given = site.args[1]
        value = given.value if isinstance(given, Constant) else None
        if type(value) is not int or abs(value) > MAX_DECIMALS:
            raise site.fail(
                "the decimals of ROUND must be an integer from"
                f" {-MAX_DECIMALS} to {MAX_DECIMALS}, and {show(given)} is not",
                at=given,
                hint="write ROUND(x, 2)",
            )
        decimals = value

    def rounded(values: AnyArray, *_decimals: AnyArray) -> AnyArray:
        if values.dtype.kind not in "iu" or decimals >= 0:
            return np.round(values, decimals)
        made = _rounded_integers(values, -decimals)
        if made is None:
            raise site.fail(
                f"{show(site.args[0])} rounded to {decimals} decimals is beyond 64 bits",
                hint=f"write ROUND(CAST({show(site.args[0])} AS FLOAT), {decimals})",
            )
        return made

    return apply_ufunc(site, rounded)


def _rounded_integers(values: AnyArray, zeros: int) -> AnyArray | None:
    """Return integers rounded to this many zeros, half to even, with 64 bits; None beyond them."""
    wide = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
    if zeros > INTEGER_DIGITS:
        return np.zeros_like(wide)
    power = 10**zeros
    limits = np.iinfo(wide.dtype.name)
    if power > limits.max:  # at most one of them, up or down
        is_far = (wide > power // 2) | (wide < max(-power // 2, limits.min))
        return None if power // 2 < limits.max and is_far.any() else np.zeros_like(wide)
    low = wide // power
    rest = wide - low * power
    half = power // 2
    low += ((rest > half) | ((rest == half) & (low % 2 == 1))).astype(wide.dtype)
    if (low > limits.max // power).any() or (low < -(-limits.min // power)).any():
        return None
    return low * power


def _bind_power(site: Site) -> Bound:
    return bind_arithmetic(site, "^")


def _bind_remainder(site: Site) -> Bound:
    return bind_arithmetic(site, "%")


def _sign(values: AnyArray) -> AnyArray:
    return values if values.dtype.kind == "b" else np.sign(values)


def _bind_logical(role: str) -> Callable[[Site], Bound]:
    def bind(site: Site) -> Bound:
        return bind_logic(site, role)

    return bind


FUNCTIONS = (
    Function("POW", "POW(x, y)", "x to the power y, as x ^ y.", (2, 2), _bind_power),
    Function(
        "CLIP",
        "CLIP(x, low, high)",
        "x, but not below low nor above high.",
        (3, 3),
        _bind(np.clip, 2),
    ),
    Function(
        "LOGICAL_AND",
        "LOGICAL_AND(a, b)",
        "Are both true, element by element.",
        (2, 2),
        _bind_logical("and"),
    ),
    Function(
        "LOGICAL_OR",
        "LOGICAL_OR(a, b)",
        "Is either true, element by element.",
        (2, 2),
        _bind_logical("or"),
    ),
    Function("MOD", "MOD(x, y)", "Remainder of x / y, as x % y.", (2, 2), _bind_remainder),
    Function("SIGN", "SIGN(x)", "-1, 0 or 1, by the sign of x.", (1, 1), _bind(_sign, 1)),
    Function("SIN", "SIN(x)", "Sine of x radians.", (1, 1), _bind_real(np.sin, 8)),
    Function("COS", "COS(x)", "Cosine of x radians.", (1, 1), _bind_real(np.cos, 8)),
    Function("TAN", "TAN(x)", "Tangent of x radians.", (1, 1), _bind_real(np.tan, 8)),
    Function("ABS", "ABS(x)", "Absolute value.", (1, 1), _bind(_abs, 1)),
    Function("SQRT", "SQRT(x)", "Square root.", (1, 1), _bind_real(np.sqrt, 4)),
    Function("EXP", "EXP(x)", "e to the power x.", (1, 1), _bind_real(np.exp, 8)),
    Function("LOG", "LOG(x)", "Natural logarithm.", (1, 1), _bind_real(np.log, 8)),
    Function("FLOOR", "FLOOR(x)", "Largest integer not above x.", (1, 1), _bind(np.floor, 1)),
    Function("CEIL", "CEIL(x)", "Smallest integer not below x.", (1, 1), _bind(np.ceil, 1)),
    Function(
        "ROUND", "ROUND(x, decimals)", "Nearest number of this many decimals.", (1, 2), _bind_round
    ),
)

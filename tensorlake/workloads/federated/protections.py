"""The argument ``secure`` of ``tl.federated``: its names, settings, and what goes with each.

    protections_of   names and settings, as numbers that Flower takes
    made             one of Flower's objects with its settings
    check_mean       the strategies that a protection is right for
    check_clients    how many clients "secagg+" can add

Flower checks few of them: NaN, or a sum beyond the modulus, gives a model without a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from numbers import Real
from typing import Any, Literal

import numpy as np

from tensorlake.errors import InvalidInputError, did_you_mean, missing_extra, shown
from tensorlake.quantities import is_whole_number

__all__ = [
    "SHARES",
    "STATED",
    "THRESHOLD",
    "FlowerObject",
    "Secure",
    "Weights",
    "check_clients",
    "check_mean",
    "flower_of",
    "listed",
    "made",
    "protections_of",
    "seed_noise",
]

Weights = list[np.ndarray[Any, Any]]
Protection = Literal["secagg+", "dp", "local-dp"]
Secure = Protection | Mapping[Protection, Mapping[str, Any]] | None
FlowerObject = Any  # of an optional library

SHARES, THRESHOLD = 1.0, 0.7
"""Each client has a share of each other one's keys, and three of ten may drop out."""

SETTINGS: Mapping[str, frozenset[str]] = {
    "secagg+": frozenset(
        {
            "num_shares",
            "reconstruction_threshold",
            "max_weight",
            "clipping_range",
            "quantization_range",
            "modulus_range",
            "timeout",
        }
    ),
    "dp": frozenset({"noise_multiplier", "clipping_norm", "num_sampled_clients"}),
    "local-dp": frozenset({"clipping_norm", "sensitivity", "epsilon", "delta"}),
}
"""The arguments of Flower's classes. Those of "secagg+" have defaults."""

INTEGERS = frozenset({"num_sampled_clients", "quantization_range", "modulus_range"})
BETWEEN = {"epsilon": (0, math.inf), "delta": (0, 1), "timeout": (0, math.inf)}
BETWEEN["quantization_range"] = (0, 2**31)  # Flower rounds to int32
"""Bounds, both excluded, that Flower does not check."""

QUANTIZATION, MODULUS = 2**22, 2**32
"""Flower's defaults."""

STATED = "tensorlake.secure"
"""Where a server and a client name their protections: in the settings of a round, in metrics."""

MEANS = ("FedAvg", "FaultTolerantFedAvg")
"""Strategies whose new weights are the weighted mean: the noise of "dp" is meant for it."""

OF_MEANS = (*MEANS, "FedAvgM", "FedAdagrad", "FedAdam", "FedYogi")
"""Strategies that need no more of a round than the weighted mean, which "secagg+" leaves."""


def flower_of(call: str) -> Callable[[str], Any]:
    """Return what imports a module of Flower."""
    try:
        import_module("flwr")
    except ImportError as error:
        raise missing_extra(call, "flwr") from error
    return lambda name: import_module(f"flwr.{name}")


def protections_of(secure: Secure) -> dict[str, Mapping[str, Any]]:
    """Return the settings of each protection, by its name.

    Raises:
        InvalidInputError: It is neither a name nor a mapping, or has unknown names.
    """
    if secure is None:
        return {}
    given: Any = {secure: {}} if isinstance(secure, str) else secure
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"secure={shown(secure)}: give {listed(SETTINGS)}, or a mapping of these names to"
            " settings",
            actual=secure,
        )
    for name in given:
        if name not in SETTINGS:
            raise InvalidInputError(
                f"secure={shown(secure)}: there is no {shown(name)}{did_you_mean(name, SETTINGS)}"
                f"\ngive {listed(SETTINGS)}",
                actual=name,
            )
    return {name: _settings(name, settings) for name, settings in given.items()}


def _settings(name: str, settings: Any) -> dict[str, Any]:
    """Return settings with numbers of Python, after a check of their names and values."""
    known = SETTINGS[name]
    if not isinstance(settings, Mapping):
        raise InvalidInputError(
            f"secure[{name!r}]={shown(settings)}: give a mapping of settings: {listed(known)}",
            actual=settings,
        )
    for one in settings:
        if one not in known:
            raise InvalidInputError(
                f"secure[{name!r}] has no setting {shown(one)}{did_you_mean(one, known)}"
                f"\ngive {listed(known)}",
                actual=one,
            )
    return {one: _number(name, one, value) for one, value in settings.items()}


def _number(name: str, setting: str, value: Any) -> float | None:
    """Return a setting as a number of Python: Flower takes no others, and NaN for one."""
    if value is None and setting == "timeout":
        return None
    least, most = BETWEEN.get(setting, (-math.inf, math.inf))
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    number: Any = value if is_real else math.nan
    if not least < number < most or (setting in INTEGERS and not is_whole_number(value)):
        kind = "an integer" if setting in INTEGERS else "a finite number"
        bounds = [] if least == -math.inf else [f" above {least}"]
        bounds += [] if most == math.inf else [f" below {most}"]
        raise InvalidInputError(
            f"secure[{name!r}][{setting!r}]={shown(value)}: give {kind}{' and'.join(bounds)}",
            actual=value,
        )
    return int(number) if is_whole_number(value) else float(number)


def made(
    name: str, kind: Callable[..., Any], protections: Mapping[str, Mapping[str, Any]]
) -> FlowerObject:
    """Make one of Flower's objects with its settings.

    Raises:
        InvalidInputError: One is missing, or Flower refuses one.
    """
    settings = protections[name]
    missing = [] if name == "secagg+" else sorted(SETTINGS[name] - settings.keys())
    if missing:
        raise InvalidInputError(
            f"secure[{name!r}] lacks {listed(missing)}"
            f"\ngive them: secure={{{name!r}: {{{missing[0]!r}: …}}}}",
            expected=missing,
        )
    try:
        return kind(**{one: _as_sent(one, value) for one, value in settings.items()})
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"secure[{name!r}]={shown(dict(settings))}: Flower refuses it: {error}",
            actual=dict(settings),
        ) from error


def _as_sent(name: str, value: Any) -> Any:
    """Return a setting in the type that Flower's clients insist on."""
    is_real = name in ("clipping_range", "max_weight") and type(value) is int
    return float(value) if is_real else value


def check_mean(
    strategy: FlowerObject, strategies: FlowerObject, protections: Mapping[str, Any]
) -> None:
    """Refuse a strategy that needs more of a round than its mean, or makes more of it.

    With "secagg+" such a one is given the mean in place of each client's weights, and with "dp"
    the noise is too small for it: either is silent.
    """
    named = next((name for name in ("dp", "secagg+") if name in protections), None)
    if named is None:
        return
    known = MEANS if named == "dp" else OF_MEANS
    method = getattr(strategy.aggregate_fit, "__func__", None)
    if all(method is not getattr(strategies, one).aggregate_fit for one in known):
        raise InvalidInputError(
            f"strategy={type(strategy).__name__}: {named!r} is right for a weighted mean, and the"
            " aggregate_fit of this strategy is not known to use no more"
            f"\ngive {', '.join(known)}, or a class that inherits their aggregate_fit;"
            " keep the weights of a round in evaluate_fn",
            actual=strategy,
            expected=known,
        )


def check_clients(count: int, settings: Mapping[str, Any]) -> None:
    """Refuse a round that "secagg+" cannot add: alone, or of sums beyond the modulus."""
    steps = settings.get("quantization_range", QUANTIZATION)
    modulus = settings.get("modulus_range", MODULUS)
    if count == 1:
        raise InvalidInputError(
            "a round has 1 client, and 'secagg+' needs 2: nothing would hide its weights"
            "\nraise min_fit_clients of the strategy",
            actual=count,
        )
    if count * steps >= modulus:
        raise InvalidInputError(
            f"a round has {count:,} clients, and the sums of 'secagg+' fit for fewer than"
            f" modulus_range ÷ quantization_range = {modulus // steps:,}"
            "\nraise modulus_range, or ask fewer clients",
            actual=count,
            expected=modulus // steps,
        )


def seed_noise() -> None:
    """Seed NumPy's state, of which Flower draws noise, by the system: a script may have set it."""
    np.random.seed()  # noqa: NPY002 - what Flower draws from


def listed(names: Any) -> str:
    """Return names in quotes, in order."""
    return ", ".join(repr(one) for one in sorted(names))

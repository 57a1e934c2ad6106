"""The arguments of a run's loader as JSON, from which its batches can be made again.

    {"batch_size": 256, "decode": {"image": [{"step": "Flip", "p": 0.5}]},
     "transform": {"function": "train.augment", "digest": "9f…"}}

Functions and arrays are recorded by name and digest, not by value. Arguments that say where batches
are made, and not what is in them, are left out.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tensorlake.errors import TensorlakeError

__all__ = ["arguments_from_json", "arguments_to_json", "digest_of", "unrecorded"]

PLACEMENT = frozenset(
    {
        *("rank", "world_size", "global_batch_size", "batch_size", "mesh", "sharding", "device"),
        *("workers", "engine", "prefetch", "cache", "cache_dir", "cache_decoded"),
        *("decode_on", "timeout", "deterministic"),
    }
)
"""Arguments that do not change a batch, or that a segment has."""
BY_DIGEST = ("function", "object")


def arguments_to_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that determine batches, as JSON values."""
    from tensorlake.loader import decode

    written: dict[str, Any] = {}
    for name, value in given.items():
        if name in PLACEMENT or value is None:
            continue
        if name == "decode":
            try:
                written[name] = {
                    str(column): [decode.step_to_json(step) for step in _listed(steps)]
                    for column, steps in cast("Mapping[str, Any]", value).items()
                }
            except TensorlakeError:  # a step of the user's own
                written[name] = _by_digest(value)
            continue
        written[name] = _plain(value)
    return written


def arguments_from_json(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments again, without those that were recorded by digest only."""
    from tensorlake.loader import step_from_json

    given = {name: value for name, value in recorded.items() if not _is_digest(value)}
    if "decode" in given:
        steps = cast("Mapping[str, list[Any]]", given["decode"])
        given["decode"] = {name: [step_from_json(one) for one in of] for name, of in steps.items()}
    return given


def unrecorded(recorded: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the arguments that were recorded by digest only."""
    return {name: value for name, value in recorded.items() if _is_digest(value)}


def digest_of(value: Any) -> str:
    """Return a digest of a function's source, or of an object's contents as far as it shows them.

    >>> digest_of(np.arange(3)) == digest_of(np.arange(3))
    True
    """
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        content = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
    else:
        try:
            content = inspect.getsource(value).encode()
        except (OSError, TypeError):
            content = repr(value).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _listed(steps: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", steps) if isinstance(steps, list | tuple) else [steps]


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back; what cannot be JSON by name and digest."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return _by_digest(value)


def _by_digest(value: Any) -> dict[str, Any]:
    if callable(value):
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        return {"function": f"{module}.{name}", "digest": digest_of(value)}
    return {"object": type(value).__name__, "digest": digest_of(value)}


def _is_digest(value: Any) -> bool:
    return isinstance(value, dict) and "digest" in value and any(one in value for one in BY_DIGEST)

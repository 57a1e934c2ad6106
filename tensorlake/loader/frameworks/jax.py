"""JAX loaders: dicts of jax arrays, global ones where a sharding is given.

Each process reads the rows that its devices hold, according to the sharding:

    devices (2, 2) on processes 0 1      P("data") on axes ("data", "model")
                           2 3           0 and 1 read the first half, 2 and 3 the second

``make_array_from_process_local_data`` joins these along the sharding. Batches keep their size when
samples are skipped: ``_valid`` marks the valid rows, so functions are not recompiled.

Unless ``jax_enable_x64`` is set, JAX stores 64-bit numbers in 32 bits, and wraps what does not fit.
Here that is an error; floats are rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.config.converter import no_such_dtype

__all__ = ["JaxConverter", "placed_by"]

LEAST_NARROWED_NBYTES = 8


@dataclass(frozen=True, slots=True)
class JaxConverter:
    """Convert arrays to jax arrays; lists stay lists."""

    sharding: jax.sharding.Sharding | None = None
    device: Any = None  # jax.Device, as jax.device_put takes it
    name: str = "jax"
    keeps_places: bool = True
    presents: bool = True
    lists_null: bool = True
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that this process makes every batch."""
        return 0, 1

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Convert a batch's arrays to jax arrays."""
        return {name: self._array(name, value) for name, value in batch.items()}

    def _array(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        value = _as_stored(name, value)
        try:
            if self.sharding is not None:
                return jax.make_array_from_process_local_data(self.sharding, value)
            return jax.device_put(value, self.device)
        except TypeError as error:
            raise no_such_dtype(name, value.dtype, "JAX") from error


def _as_stored(name: str, value: np.ndarray) -> np.ndarray:
    """Return an array in the dtype in which JAX stores it.

    Raises:
        InvalidInputError: It has a value outside of that dtype's range.
    """
    if value.dtype.kind not in "iufc" or value.dtype.itemsize < LEAST_NARROWED_NBYTES:
        return value
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    if dtype == value.dtype:
        return value
    with np.errstate(over="ignore"):
        narrow = value.astype(dtype)
    is_lost = narrow != value if dtype.kind in "iu" else np.isinf(narrow) & ~np.isinf(value)
    if is_lost.any():
        lost = value[is_lost][0].item()
        raise InvalidInputError(
            f"{name!r} of a batch has the value {lost!r}, outside of the range of {dtype}, in which"
            f" JAX stores {value.dtype}"
            '\ncall jax.config.update("jax_enable_x64", True), or leave the column out by columns=',
            tensor=name,
            expected=str(dtype),
            actual=lost,
        )
    return narrow


def placed_by(sharding: Any) -> tuple[tuple[int, int], int]:
    """Determine which rows of a batch the devices of this process hold.

    Returns:
        The part of each global batch that this process reads, with the number of parts; and the
        number of equal parts along a batch's rows, over all devices.

    Raises:
        InvalidInputError: It is not a sharding; it splits more than rows; none of its devices
            belongs to this process; or processes hold rows that are not contiguous or that partly
            overlap.
    """
    held, equal_parts = _held_by_process(sharding)
    own = held.get(jax.process_index())
    if own is None:
        raise InvalidInputError(
            f"no device of sharding= belongs to this process, {jax.process_index()} of"
            f" {jax.process_count()}: {sharding}\nmake loaders on the processes that train",
            argument="sharding",
        )
    size, start = len(own), min(own)
    is_even = all(
        len(parts) == size and max(parts) - min(parts) == size - 1 and min(parts) % size == 0
        for parts in held.values()
    )
    if not is_even:
        each = "\n".join(f"   process {one}  parts {sorted(held[one])}" for one in sorted(held))
        raise InvalidInputError(
            f"the devices of each process hold rows of sharding= that are not one range, or not as"
            f" many as others hold\n{each}\narrange the mesh so that the devices of a process are"
            " adjacent along the axes that split the rows",
            argument="sharding",
        )
    return (start // size, equal_parts // size), equal_parts


def _held_by_process(sharding: Any) -> tuple[dict[int, set[int]], int]:
    """Return which parts of the rows each process's devices hold, and the number of parts."""
    if not isinstance(sharding, jax.sharding.Sharding):
        raise InvalidInputError(
            f"sharding= is a jax.sharding.Sharding, got {shown(sharding)}"
            '\nwrite sharding=NamedSharding(mesh, PartitionSpec("data"))',
            argument="sharding",
            actual=sharding,
        )
    along_rows, num_parts = sharding, 1
    if isinstance(sharding, jax.sharding.NamedSharding):
        first = sharding.spec[0] if len(sharding.spec) else None
        if any(axis is not None for axis in sharding.spec[1:]):
            raise InvalidInputError(
                f"sharding= splits more than the rows of a batch, {sharding.spec}, and columns such"
                " as '_valid' have rows alone\nwrite PartitionSpec("
                f"{first!r}), and split a column further in your step: jax.device_put(x, …)",
                argument="sharding",
                actual=str(sharding.spec),
            )
        axes = () if first is None else first if isinstance(first, tuple) else (first,)
        num_parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
        along_rows = jax.sharding.NamedSharding(
            sharding.mesh, jax.sharding.PartitionSpec(axes or None)
        )
    held: dict[int, set[int]] = {}
    for device, (rows,) in along_rows.devices_indices_map((num_parts,)).items():
        held.setdefault(device.process_index, set()).update(range(*rows.indices(num_parts)))
    return held, num_parts

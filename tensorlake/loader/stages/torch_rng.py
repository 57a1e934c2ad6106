"""Torch's random functions with a row's own generator instead of torch's global one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

__all__ = ["RowDraws"]

FILLING = frozenset(
    {"bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_"}
    | {"uniform_"}
)
"""Methods that fill a tensor: their generator is on its device."""
MAKING = frozenset({"rand", "randint", "randn", "randperm"})
"""Functions that make a tensor, on the device given."""
DRAWING = frozenset({"bernoulli", "multinomial", "normal", "poisson"})
"""Functions of a tensor, except ``torch.normal`` of numbers."""
LIKE: dict[str, Callable[..., Any]] = {
    "rand_like": torch.rand,
    "randn_like": torch.randn,
    "randint_like": torch.randint,
}
"""Functions without a generator argument, and the equivalent function of a shape."""
RANDOM = FILLING | MAKING | DRAWING | LIKE.keys()
SEED_STOP = 1 << 63


class RowDraws(TorchFunctionMode):
    """Pass the row's own generator, created on first use, to every draw of this thread."""

    def __init__(self, source: Callable[[], np.random.Generator]) -> None:
        super().__init__()
        self._source = source
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function of torch, with the row's generator if it draws without one."""
        del types
        given = kwargs or {}
        name = getattr(func, "__name__", "")
        if name not in RANDOM or given.get("generator") is not None:
            return func(*args, **given)
        if name in LIKE:
            return self._like(name, args, given)
        generator = self._generator(self._device(name, args, given))
        return func(*args, **given | {"generator": generator})

    def _like(self, name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        given = dict(given)
        like = given.pop("input", None)
        numbers = args if like is not None else args[1:]
        like = args[0] if like is None else like
        given.pop("memory_format", None)
        given.setdefault("dtype", like.dtype)
        given.setdefault("device", like.device)
        generator = self._generator(torch.device(given["device"]))
        return LIKE[name](*numbers, size=like.shape, generator=generator, **given)

    def _device(self, name: str, args: tuple[Any, ...], given: dict[str, Any]) -> torch.device:
        if name in MAKING:
            device = given.get("device")
            return torch.get_default_device() if device is None else torch.device(device)
        tensors = (one for one in (*args, *given.values()) if isinstance(one, torch.Tensor))
        first = next(tensors, None)
        return torch.get_default_device() if first is None else first.device

    def _generator(self, device: torch.device) -> torch.Generator:
        found = self._generators.get(device)
        if found is None:
            found = self._generators[device] = torch.Generator(device)
            found.manual_seed(int(self._source().integers(SEED_STOP)))
        return found

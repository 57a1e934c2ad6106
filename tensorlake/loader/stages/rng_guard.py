"""Detection of transforms that draw from process-wide random generators.

Threads transform rows in no fixed order, so such draws differ from run to run, and no state resumes
them. One row of each pass is watched, by a profile function of its thread alone:

    random         every call of the module's own generator is seen
    torch          a call that draws is seen, and the default generator has moved on
    numpy.random   its calls are not seen: a function that names it ran, and its generator has moved

Both conditions of the last two are needed: another thread may draw meanwhile.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tensorlake.errors import InvalidInputError

__all__ = ["DrawWatch"]

TORCH_DRAWS = frozenset(
    {"bernoulli", "bernoulli_", "cauchy_", "dropout", "exponential_", "geometric_", "log_normal_"}
    | {"multinomial", "normal", "normal_", "poisson", "rand", "rand_like", "randint"}
    | {"randint_like", "randn", "randn_like", "random_", "randperm", "uniform_"}
)
READS_STATE = frozenset({"getstate", "__getstate__"})


class DrawWatch:
    """Watches one call of a transform per pass, in the first thread that calls it."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free = threading.Lock()

    def call(self, transform: Callable[[], Any]) -> Any:
        """Call a transform; watch the first call.

        Raises:
            InvalidInputError: It drew from a generator of the whole process.
        """
        # One profile function per thread: an existing profiler is not replaced.
        if sys.getprofile() is not None or not self._free.acquire(blocking=False):
            return transform()
        with _watched() as drawn:
            returned = transform()
        if drawn:
            raise InvalidInputError(
                f"transform= draws from {' and '.join(drawn)}, which all threads share: the same"
                " seed would give other rows in each run, and after a resume"
                "\ngive it a parameter rng, a NumPy Generator for each row; or allow it with"
                " deterministic=False",
                argument="transform",
                actual=drawn,
            )
        return returned


@contextmanager
def _watched() -> Generator[list[str]]:
    """Record the global generators that this thread draws from; the list is filled at the end."""
    drawn: list[str] = []
    before = _positions()
    called: set[str] = set()

    def note(frame: FrameType, event: str, called_function: Any) -> None:
        if event == "c_call":
            owner, name = getattr(called_function, "__self__", None), called_function.__name__
            if owner is getattr(random, "_inst", None) and name not in READS_STATE:
                called.add("random")
            elif name in TORCH_DRAWS:
                called.add("torch")
        elif event == "call" and _names_numpy_random(frame):
            called.add("numpy.random")

    sys.setprofile(note)
    try:
        yield drawn
    finally:
        sys.setprofile(None)
    after = _positions()
    moved = {name for name in after if after[name] != before.get(name)}
    drawn += sorted(called & (moved | {"random"}))


def _positions() -> dict[str, Any]:
    """Return the states of the global generators of the libraries that this process uses."""
    found: dict[str, Any] = {}
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy_random is not None:
        state = numpy_random.get_state(legacy=False)
        found["numpy.random"] = state["state"]["pos"], state["state"]["key"].tobytes()
    if torch is not None:
        found["torch"] = torch.get_rng_state().numpy().tobytes()
    return found


def _names_numpy_random(frame: FrameType) -> bool:
    """Return whether a function names ``numpy.random``, or a function of its generator."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return False
    names = frame.f_code.co_names
    if "numpy.random" in names or ("random" in names and not {"np", "numpy"}.isdisjoint(names)):
        return True
    for name in names:
        value = frame.f_globals.get(name)
        is_function = getattr(value, "__self__", None) is numpy_random.mtrand._rand  # noqa: SLF001 - no other name
        if value is numpy_random or is_function:
            return True
    return False

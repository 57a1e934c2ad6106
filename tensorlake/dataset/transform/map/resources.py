"""The resources that workers of ``map`` have on a Ray cluster, and whether it has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorlake.errors import InvalidInputError, missing_extra, shown
from tensorlake.storage import MemoryStore, Store

__all__ = ["Needs", "check_installed", "connected", "refuse_memory", "workers_on"]


@dataclass(frozen=True, slots=True)
class Needs:
    """The resources of a cluster that a worker has for itself, beside one processor.

    Attributes:
        num_gpus: Graphics processors; a fraction shares one.
        resources: Custom resources of Ray, by name.
    """

    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict[str, float])

    @classmethod
    def of(cls, engine: str, num_gpus: Any, resources: Any) -> Needs:
        """Check what a user gave.

        Raises:
            InvalidInputError: It is not an amount of a resource, or the engine has none.
        """
        if engine != "ray" and not (num_gpus is None and resources is None):
            raise InvalidInputError(
                f"num_gpus= and resources= are of engine='ray', and engine={engine!r} runs here"
                "\nleave them out, or give engine='ray'"
            )
        if resources is not None and not isinstance(resources, Mapping):
            raise InvalidInputError(
                f"resources is amounts by name, got {shown(resources)}"
                "\nwrite resources={'name': 1}"
            )
        amounts: dict[Any, Any] = dict(resources or {})
        for name, amount in (("num_gpus", num_gpus or 0), *amounts.items()):
            is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
            if not isinstance(name, str) or not is_number or not 0 <= amount < math.inf:
                raise InvalidInputError(
                    f"{name if name == 'num_gpus' else f'resources[{name!r}]'} is an amount of"
                    f" at least 0, got {shown(amount)}"
                )
        return cls(num_gpus or 0, amounts)


def refuse_memory(store: Store, *, call: str, instead: str) -> None:
    """Refuse rows that workers on a cluster do not reach.

    Raises:
        InvalidInputError: They are in the memory of this process.
    """
    if isinstance(store, MemoryStore):
        raise InvalidInputError(
            f"{call} of {store.url!r}: its rows are in the memory of this process, which workers of"
            f" Ray do not reach\n{instead}",
            dataset=store.url,
        )


def workers_on(needs: Needs, *, call: str, wanted: int | None) -> int:
    """Return how many workers to start.

    Args:
        needs: The resources of each worker.
        call: The call, for errors.
        wanted: The number that the user gave; None: as many as the cluster holds now.

    Raises:
        InvalidInputError: No node of the cluster has what a worker needs.
        MissingExtraError: Ray is not installed.
    """
    ray = connected(call)
    wants = {"CPU": 1.0, "GPU": needs.num_gpus, **needs.resources}
    wants = {name: amount for name, amount in wants.items() if amount}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(
        min(int(node.get(name, 0) / amount) for name, amount in wants.items()) for node in nodes
    )
    if not room:
        has: dict[str, float] = {}
        for node in nodes:
            has = {name: max(has.get(name, 0), node.get(name, 0)) for name in wants}
        raise InvalidInputError(
            f"no node of the Ray cluster has what one worker needs, {wants}; the most that a node"
            f" has is {has}\nstart such a node, or ask for less: num_gpus=, resources=",
            expected=wants,
            actual=has,
        )
    return room if wanted is None else wanted


def connected(call: str) -> Any:
    """Return Ray, connected to the cluster of this process, or to a new one on this machine.

    Args:
        call: The call, for an error.

    Raises:
        MissingExtraError: It is not installed.
    """
    ray = check_installed(call)
    if not ray.is_initialized():
        ray.init()
    return ray


def check_installed(call: str) -> Any:
    """Return Ray.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import ray  # pyright: ignore[reportMissingImports] - of the extra `ray`
    except ImportError as error:
        raise missing_extra(call, "ray") from error
    return ray

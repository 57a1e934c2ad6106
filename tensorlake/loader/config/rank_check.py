"""Rank agreement: before every pass, all ranks compare their plan with rank 0's.

Two ranks that opened a branch at slightly different times, or that are in different epochs, would
train on some rows twice and leave others out. Each rank posts its plan to its framework's store for
the group. Rank 0 waits for all plans, compares them, and posts the verdict that all ranks wait for,
so that either every rank begins its pass or every rank raises.

    key    tensorlake/<what is read>/<rank>             number of passes this rank has begun
           tensorlake/<what is read>/<pass>/<rank>      its plan, as JSON; rank 0 deletes it
           tensorlake/<what is read>/<pass>/verdict     which ranks differ, and in what
           tensorlake/waiting/<rank>                    what a rank waits to begin, while it waits

The verdict of a pass is deleted at the next, when all have read it. Ranks that begin loaders of
different columns wait for each other under different keys: when the timeout ends, rank 0 finds in
``waiting`` what the others began instead, and tells them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from hashlib import sha256
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, cast

from tensorlake.errors import StateMismatchError, StorageTimeoutError

if TYPE_CHECKING:
    from tensorlake.loader.config.arguments import LoaderArguments
    from tensorlake.loader.plan.sharding import Sharding
    from tensorlake.loader.plan.state import LoaderState

__all__ = ["Board", "Group", "compare_with_rank_0", "plan_to_compare"]

COMPARED = (
    *(
        "batch_by",
        "balance",
        "placement",
        "placement_nbytes",
        "drop_last",
        "decode",
        "transform",
        "batch_transform",
        "collate",
        "layout",
        "on_error",
    ),
)
MAX_LISTED = 4  # ranks in a message
WAITING = "tensorlake/waiting"
VERDICT_GRACE_S = 5.0  # that rank 0's verdict may take after its own wait has ended


class Board(Protocol):
    """A store in which the processes of a group post short strings for each other."""

    def post(self, key: str, text: str) -> None:
        """Post a string."""
        ...

    def wait(self, keys: Sequence[str], timeout_s: float) -> None:
        """Wait until all keys are posted or the timeout expires."""
        ...

    def has(self, key: str) -> bool:
        """Return whether a key is posted now."""
        ...

    def read(self, keys: Sequence[str]) -> list[str]:
        """Return the strings posted under some keys."""
        ...

    def delete(self, key: str) -> None:
        """Delete a key, if it is posted."""
        ...

    def count(self, key: str) -> int:
        """Return the number of earlier calls for a key."""
        ...


@dataclass(frozen=True, slots=True)
class Group:
    """The processes that a framework has joined.

    Attributes:
        rank: Number of this process.
        size: Number of processes.
        board: Where they post strings; None if the framework has no such store.
    """

    rank: int
    size: int
    board: Board | None = None


def plan_to_compare(
    state: LoaderState, arguments: LoaderArguments, sharding: Sharding
) -> dict[str, Any]:
    """Return what must be equal on all ranks, by name: order, batches, and processing of rows.

    The URL may differ: each machine may have its own copy.
    """
    return {
        **replace(state, source=None).to_json(),
        "world_size": sharding.world_size,
        "global_batch_size": sharding.global_batch_size,
        **{name: _in_words(getattr(arguments, name)) for name in COMPARED},
    }


def compare_with_rank_0(group: Group, *, what: str, plan: dict[str, Any], timeout_s: float) -> None:
    """Post this rank's plan, and wait for the verdict whether all ranks' plans equal rank 0's.

    Raises:
        StateMismatchError: They differ, or a rank began a pass of another loader; the message lists
            the differences. Every rank raises it.
        StorageTimeoutError: A rank did not begin this pass within the timeout.
    """
    board = group.board
    if board is None or group.size == 1:
        return
    prefix = f"tensorlake/{what}"
    number = board.count(f"{prefix}/{group.rank}")
    key = f"{prefix}/{number}"
    board.post(f"{WAITING}/{group.rank}", json.dumps([what, key]))
    board.post(f"{key}/{group.rank}", json.dumps(plan))
    if group.rank == 0:
        verdict = _verdict(board, group.size, key, timeout_s)
        for _, other in verdict["elsewhere"].values():
            board.post(f"{other}/verdict", json.dumps(verdict | {"elsewhere": {0: [what, key]}}))
        board.post(f"{key}/verdict", json.dumps(verdict))
        board.delete(f"{prefix}/{number - 1}/verdict")
    else:
        board.wait([f"{key}/verdict"], timeout_s + min(timeout_s, VERDICT_GRACE_S))
        if not board.has(f"{key}/verdict"):
            board.delete(f"{WAITING}/{group.rank}")
            raise _late(what, _missing(board, group.size, key) or [0], timeout_s)
    (text,) = board.read([f"{key}/verdict"])
    verdict: dict[str, Any] = json.loads(text)
    board.delete(f"{WAITING}/{group.rank}")
    if verdict["elsewhere"]:
        raise _elsewhere(what, verdict["elsewhere"])
    if verdict["late"]:
        raise _late(what, verdict["late"], verdict["timeout_s"])
    if verdict["differing"]:
        raise _mismatch(verdict["differing"])


def _verdict(board: Board, size: int, key: str, timeout_s: float) -> dict[str, Any]:
    """Wait for the plans of all ranks, and compare them with rank 0's."""
    keys = [f"{key}/{rank}" for rank in range(size)]
    board.wait(keys, timeout_s)
    if late := _missing(board, size, key):
        waiting = [rank for rank in late if board.has(f"{WAITING}/{rank}")]
        found = board.read([f"{WAITING}/{rank}" for rank in waiting]) if waiting else []
        elsewhere = dict(zip(waiting, map(json.loads, found), strict=True))
        return {"late": late, "timeout_s": timeout_s, "differing": {}, "elsewhere": elsewhere}
    first, *others = map(json.loads, board.read(keys))
    for one in keys:
        board.delete(one)
    differing = {
        rank: {
            name: [first.get(name), plan.get(name)]
            for name in {**first, **plan}
            if first.get(name) != plan.get(name)
        }
        for rank, plan in enumerate(others, start=1)
        if plan != first
    }
    listed = dict(list(differing.items())[:MAX_LISTED])
    return {"late": [], "elsewhere": {}, "differing": listed}


def _missing(board: Board, size: int, key: str) -> list[int]:
    return [rank for rank in range(size) if not board.has(f"{key}/{rank}")]


def _late(what: str, ranks: list[int], timeout_s: float) -> StorageTimeoutError:
    named = ", ".join(map(str, ranks[:MAX_LISTED])) + (", …" if len(ranks) > MAX_LISTED else "")
    return StorageTimeoutError(
        f"rank {named} did not start this pass of a loader of {what!r} within {timeout_s:g} s"
        "\ngive the loaders of all ranks the same columns, and start them in the same order; one"
        " for this rank alone is made with rank=0, world_size=1",
        timeout_s=timeout_s,
    )


def _elsewhere(what: str, others: dict[str, list[str]]) -> StateMismatchError:
    listed = "\n".join(
        f"   rank {rank}  a loader of {other!r}"
        for rank, (other, _) in list(others.items())[:MAX_LISTED]
    )
    return StateMismatchError(
        f"this rank began a pass of a loader of {what!r}, and others of another loader\n{listed}"
        "\ngive the loaders of all ranks the same columns, and start them in the same order; one"
        " for this rank alone is made with rank=0, world_size=1",
        expected=what,
        actual={int(rank): other for rank, (other, _) in others.items()},
    )


def _mismatch(differing: dict[str, dict[str, list[Any]]]) -> StateMismatchError:
    (rank, members), *_ = differing.items()
    rows = "\n".join(
        f"   {name}  rank 0 {first!r}, rank {one} {other!r}"
        for one, found in differing.items()
        for name, (first, other) in found.items()
    )
    return StateMismatchError(
        f"rank {rank} would stream a different order than rank 0: {', '.join(members)} differ"
        f"\n{rows}\nopen one version on all ranks (tl.open(url, version='main@12')), and give"
        " all the same arguments, state and epoch",
        expected={name: first for name, (first, _) in members.items()},
        actual={name: other for name, (_, other) in members.items()},
    )


def _in_words(argument: Any) -> Any:
    """Describe an argument of a loader as JSON that is equal in all processes of a program."""
    if argument is None or isinstance(argument, str | int | float):
        return argument
    if isinstance(argument, Mapping):
        members = cast("Mapping[Any, Any]", argument)
        return {str(name): _in_words(member) for name, member in members.items()}
    if isinstance(argument, list | tuple):
        return [_in_words(member) for member in cast("Sequence[Any]", argument)]
    if is_dataclass(argument):
        return repr(argument)
    while isinstance(argument, partial):
        argument = cast("Any", argument).func
    named = argument if hasattr(argument, "__qualname__") else type(argument)
    words = f"{named.__module__}.{named.__qualname__}"
    code = getattr(argument if named is argument else named.__call__, "__code__", None)
    if not isinstance(code, CodeType):  # it is not written in Python
        return words
    return f"{words} (code {sha256(repr(_members_of(code)).encode()).hexdigest()[:8]})"


def _members_of(constant: Any) -> Any:
    """Return a function's code, or a constant of it, in a form equal in every process."""
    if isinstance(constant, CodeType):
        names = constant.co_names, constant.co_varnames, constant.co_freevars
        return constant.co_code, names, [_members_of(one) for one in constant.co_consts]
    if isinstance(constant, frozenset):  # in another order in each process
        return sorted(map(repr, cast("frozenset[Any]", constant)))
    return constant

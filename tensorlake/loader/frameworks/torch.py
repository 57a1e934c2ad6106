"""Torch loaders: dicts of tensors that share the batch's memory; an IterableDataset.

A loader iterates by itself, with its own threads. Put under a ``DataLoader(loader,
batch_size=None, num_workers=k)`` worker i makes batches i, i + k, …; rank and world size
default to ``torch.distributed``'s.

With ``device="cuda"`` a batch is copied to pinned memory, and from there by a stream of its own:

    side stream     ── copy k ──────── copy k + 1 ──
    user's stream   … step k - 1 ─┤ step k ─────────┤ step k + 1     (waits for its copy only)

so a copy runs concurrently with the kernels that the user has queued, and the user's thread waits
for neither. Memory returns to the side stream only after the user's stream has passed it
(``record_stream``).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.context import get_spawning_popen
from typing import Any, Never

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from tensorlake.errors import InvalidInputError, InvalidStateError, shown
from tensorlake.loader.config.converter import no_such_dtype
from tensorlake.loader.config.rank_board import (
    answer_workers,
    listen_as_worker,
    parent_board,
    socket_of_workers,
)
from tensorlake.loader.config.rank_check import Board, Group
from tensorlake.loader.engine.loader import Loader, made_again
from tensorlake.loader.engine.rank import ProcessRank
from tensorlake.loader.engine.torch_group import torch_group
from tensorlake.loader.frameworks.numbered_batches import BatchNumbers, NumberedBatches, only_batch
from tensorlake.loader.frameworks.torch_workers import (
    Move,
    WorkerPasses,
    adopt_file,
    check_workers,
    has_shared_file,
    shared_file,
)
from tensorlake.loader.plan.sharding import Sharding
from tensorlake.types import is_narrow_float

__all__ = ["TorchConverter", "TorchLoader", "device_of"]


class TorchLoader(Loader, IterableDataset[Any]):
    """A loader that torch's own tools accept as an iterable dataset.

    Trainers that build a new ``DataLoader``, to skip batches read before a resume, read its
    arguments from this class: they describe a ``DataLoader`` that passes our batches through.
    """

    sampler = None
    collate_fn = staticmethod(only_batch)
    prefetch_factor = None

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._passes = WorkerPasses()
        self._begun: tuple[int, int] | None = None  # where the last pass began
        self._compared: Group | None = None  # of the parent, in a worker that was spawned

    def __iter__(self) -> Iterator[Any]:
        """Start the next epoch, or continue from a loaded state; see ``Loader``.

        Raises:
            InvalidInputError: The caller would divide the batches among ranks a second time.
        """
        self._refuse_division()
        return super().__iter__()

    def _refuse_division(self) -> None:
        """Refuse callers that take the batches for one process's, and would drop most of them."""
        world_size = self._process_rank().sharding.world_size
        divider = _divider() if world_size > 1 else None
        if divider is not None:
            raise InvalidInputError(
                f"Accelerate's {divider} would divide among its processes the batches of a loader"
                f" that are divided among {world_size} ranks already, and lose most rows\ngive"
                " Accelerate the loader itself: accelerator.prepare(loader), and return it from"
                " get_train_dataloader() of a Trainer; or make it with rank=0, world_size=1",
                actual=divider,
            )

    def __getitem__(self, index: object) -> Never:
        """Refuse: torch's base class has this method.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"loader[{index!r}]: a loader streams batches in its own order\nread rows by number"
            " from the dataset, ds[…], and batches in a loop: for batch in loader"
        )

    @property
    def dataset(self) -> NumberedBatches:
        """The batches by number, as the dataset of a ``DataLoader``."""
        return NumberedBatches(self, 0 if self._rows.is_endless else self._rows.num_places)

    @property
    def batch_sampler(self) -> BatchNumbers:
        """The numbers of the batches."""
        return BatchNumbers(self)

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter()`` start this epoch from its beginning."""
        super().set_epoch(epoch)
        self._note_move()

    def skip(self, batches: int) -> None:
        """Skip batches of the current epoch, or of the next if none is left of it."""
        super().skip(batches)
        self._note_move()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, on any number of ranks."""
        super().load_state_dict(state)
        self._note_move(state)

    def advance(self, version: str | Mapping[str, str] | None = None, **others: Any) -> None:
        """Continue with other rows; the copies of persistent workers follow.

        Raises:
            InvalidStateError: Workers of a DataLoader read: none knows the place of the others.
        """
        if get_worker_info() is not None or self._passes.have_begun():
            raise InvalidStateError(
                "advance(): the workers of a DataLoader read this loader, and none knows the place"
                " of the others\nread the loader itself, which has threads of its own"
            )
        super().advance(version, **others)
        self._note_move(self.state_dict())

    def __reduce__(self) -> tuple[Callable[..., Loader], tuple[Any, ...]]:
        """Pickle the loader; for a spawned process, with the resources that it shares."""
        make, arguments = super().__reduce__()
        if get_spawning_popen() is None:
            return make, arguments
        check_workers()
        from multiprocessing.reduction import DupFd  # Windows has none

        passes = replace(self._passes, born=None, begun=0, is_set=False)
        compared, answers = self._process_rank().compared, None
        if compared is not None:
            _answer_workers()
            answers = socket_of_workers()
        parent = None if answers is None else (os.getpid(), DupFd(answers.fileno()))
        compared = None if compared is None else replace(compared, board=None)
        return _made_in_child, (DupFd(shared_file()), passes, compared, parent, *arguments)

    def _process_rank(self, *, starts: bool = False) -> ProcessRank:
        process_rank, worker = super()._process_rank(starts=starts), get_worker_info()
        if worker is None or self._compared is None:
            return process_rank
        board = None if worker.id else parent_board()
        return replace(process_rank, compared=replace(self._compared, board=board))

    def _note_move(self, state: dict[str, Any] | None = None) -> None:
        self._begun = None
        if get_worker_info() is not None:
            self._passes.set_in_worker()
        else:
            self._passes.move(self._place, state)

    def _settle_epoch(self, sharding: Sharding) -> None:
        super()._settle_epoch(sharding)
        worker, place, passes = get_worker_info(), self._place, self._passes
        if worker is None:
            if self._rows.is_endless:  # each process continues from its own position
                return
            epoch = passes.epoch_in_parent(place.epoch)
        elif self._begun == (place.epoch, place.position) and not passes.must_follow():
            return  # this pass was begun before, and nothing of it was read
        else:
            seed = worker.seed - worker.id
            epoch, moves = passes.begin_in_worker(place.epoch, worker=worker.id, seed=seed)
            self._follow(moves)
        if epoch != place.epoch and not self._rows.is_endless:
            place.start(epoch)
        self._begun = place.epoch, place.position

    def _follow(self, moves: list[Move]) -> None:
        """Apply to this worker's copy the moves of the loader in the parent since."""
        for move in moves:
            if move.state is not None:
                super().load_state_dict(move.state)
            self._place.start(move.epoch)
            self._place.position, self._place.skipped = move.position, move.skipped


@dataclass(frozen=True, slots=True)
class TorchConverter:
    """Convert arrays to tensors."""

    device: torch.device | None = None
    nested: frozenset[str] = frozenset()
    name: str = "torch"
    keeps_places: bool = False
    presents: bool = True
    lists_null: bool = True
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return which of the DataLoader's workers this is, and their number."""
        worker = get_worker_info()
        return (0, 1) if worker is None else (worker.id, worker.num_workers)

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Convert a batch's arrays to tensors, and copy them to the device."""
        tensors = {name: _as_tensor(name, value) for name, value in batch.items()}
        if self.device is not None:
            tensors = self._on_device(tensors, self.device)
        for name in self.nested & tensors.keys():
            offsets = tensors.pop(f"{name}_offsets")
            tensors[name] = torch.nested.nested_tensor_from_jagged(tensors[name], offsets)
        return tensors

    def _on_device(self, tensors: dict[str, Any], device: torch.device) -> dict[str, Any]:
        if device.type != "cuda":
            return _mapped(tensors, lambda tensor: tensor.to(device, non_blocking=True))
        side = side_stream(device)
        with torch.cuda.stream(side):
            moved = _mapped(
                tensors, lambda tensor: tensor.pin_memory().to(device, non_blocking=True)
            )
        current = torch.cuda.current_stream(device)
        current.wait_stream(side)
        _mapped(moved, lambda tensor: tensor.record_stream(current))
        return moved


def _board_of_process() -> Board | None:
    group = torch_group()
    return None if group is None else group.board


def _answer_workers() -> None:
    """Answer workers about to be started, if there are other ranks to compare with."""
    if has_shared_file() and torch_group() is not None:
        answer_workers(_board_of_process)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_answer_workers)


def _made_in_child(
    file: Any,
    passes: WorkerPasses,
    compared: Group | None,
    parent: tuple[int, Any] | None,
    *arguments: Any,
) -> Loader:
    adopt_file(file.detach())
    if parent is not None:
        listen_as_worker(parent[0], parent[1].detach())
    loader = made_again(*arguments)
    assert isinstance(loader, TorchLoader)
    loader._passes, loader._compared = passes, compared  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its own
    return loader


DIVIDERS = frozenset({"DataLoaderDispatcher", "IterableDatasetShard"})
"""Classes of Accelerate, and of transformers before it, that a Trainer's dataloader is one of."""
FRAMES = 16  # between their ``__iter__`` and ours, with a DataLoader's in between


def _divider() -> str | None:
    """Return which of them is calling ``__iter__``, by stack frames: a loader is not informed."""
    frame = inspect.currentframe()
    for _ in range(FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is None:
            return None
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package in ("accelerate", "transformers") and frame.f_code.co_name == "__iter__":
            name = type(frame.f_locals.get("self")).__name__
            if name in DIVIDERS:
                return name
    return None


def device_of(device: Any) -> torch.device:
    """Return a torch device by name.

    Raises:
        InvalidInputError: This machine has no such device; raised before anything is read.
    """
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"device={shown(device)} is not a torch device\ngive 'cuda', 'cuda:0', 'cpu' or another"
            " torch.device",
            argument="device",
            actual=device,
        ) from error
    count = torch.cuda.device_count() if known.type == "cuda" else 0
    if known.type == "cuda" and (known.index or 0) >= count:
        raise InvalidInputError(
            f"device={shown(device)}: torch {torch.__version__} finds {count} CUDA devices here"
            "\nleave device= out for main memory, or install a torch built for CUDA",
            argument="device",
            expected=count,
            actual=device,
        )
    return known


@cache
def side_stream(device: torch.device) -> Any:
    """Return the stream of this process that copies batches to a device."""
    return torch.cuda.Stream(device)


def _as_tensor(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_as_tensor(name, one) for one in value]
    return _of_array(name, value) if isinstance(value, np.ndarray) else value


def _of_array(name: str, array: np.ndarray) -> torch.Tensor:
    """View an array as a tensor; float types that torch cannot convert are passed as bits.

    Raises:
        InvalidInputError: A function of the user made an array of which torch has no dtype.
    """
    if not is_narrow_float(array.dtype):
        try:
            return torch.from_numpy(array)
        except TypeError as error:
            raise no_such_dtype(name, array.dtype, "torch") from error
    bits = torch.from_numpy(array.view(np.int16 if array.itemsize > 1 else np.uint8))
    return bits.view(getattr(torch, array.dtype.name))


def _mapped(tensors: dict[str, Any], change: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    """Change every tensor of a batch, also in lists; other values stay unchanged."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(one) for one in value]
        return change(value) if isinstance(value, torch.Tensor) else value

    return {name: changed(value) for name, value in tensors.items()}

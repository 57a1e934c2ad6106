"""A view as LeRobot has it: episodes of steps, and the features that tensors become.

    state           observation.state       reward, done, …     next.reward, next.done
    frame           observation.image       frame/top           observation.images.top
    action          action                  task                task_index, and its text

A feature that `tl.ingest.lerobot` read has its name again. Steps of an episode are numbered by the
order of the rows, at equal distances in time. Grey frames get three equal channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.dataset.core.indexing import not_null
from tensorlake.dataset.export.files import plain_value, tensor_columns
from tensorlake.dataset.export.headers import read_headers
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError, shown
from tensorlake.types import ClassLabel, Column, Image, Json, SampleType, Text, Timestamp, untiled

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["Episode", "EpisodeSteps", "FeatureColumn", "episode_steps"]

NUMBERED = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
"""Features that every dataset has, which follow from the order of the rows."""

_STEP, _TIME, _TASK = "t", "timestamp", "task"
TOLERANCE_S = 1e-4
"""By which the library lets times differ from the step ÷ fps."""

_OPAQUE = 255
_NEXT = frozenset(("reward", "done", "success", "terminated", "truncated"))


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """A tensor, and the feature that it becomes.

    Attributes:
        tensor: The tensor.
        type: Its type.
        name: The feature.
        dtype: "video", "string", or a dtype of NumPy.
        shape: Shape of a value; (1,) of a number.
        names: Names of the elements, if they have any.
    """

    tensor: str
    type: SampleType
    name: str
    dtype: str
    shape: tuple[int, ...]
    names: Any

    @property
    def is_camera(self) -> bool:
        """Whether its values are frames."""
        return self.dtype == "video"

    def described(self) -> dict[str, Any]:
        """Return the feature as ``info.json`` has it."""
        names = ["height", "width", "channels"] if self.is_camera else self.names
        return {"dtype": self.dtype, "shape": [*self.shape], "names": names}


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode.

    Attributes:
        number: Its number.
        positions: Positions of its steps in the view, int64 (steps,).
        start: Number of its first step, counted over the dataset.
    """

    number: int
    positions: np.ndarray = field(repr=False)
    start: int

    @property
    def stop(self) -> int:
        """Number of the step after its last."""
        return self.start + len(self.positions)


@dataclass(frozen=True, eq=False)
class EpisodeSteps:
    """The steps of a view.

    Attributes:
        view: The rows.
        fps: Steps per second.
        robot: The kind of robot; None if it is unknown.
        columns: Features of tensors, without those of `NUMBERED`.
        episodes: In the order of their first steps.
        tasks: The texts of the tasks, in the order of their first steps.
        task_numbers: The number of the task of each row of the view, int64 (rows,).
    """

    view: RowSet
    fps: float
    robot: str | None
    columns: Sequence[FeatureColumn]
    episodes: Sequence[Episode]
    tasks: Sequence[str]
    task_numbers: np.ndarray = field(repr=False)

    @cached_property
    def cameras(self) -> list[FeatureColumn]:
        """Features whose values are frames."""
        return [one for one in self.columns if one.is_camera]

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        return self.episodes[-1].stop if self.episodes else 0

    def info(self) -> dict[str, Any]:
        """Return the members of ``info.json`` that do not depend on files."""
        features = {one.name: one.described() for one in self.columns}
        for name, dtype in NUMBERED.items():
            features[name] = {"dtype": dtype, "shape": [1], "names": None}
        return {
            "robot_type": self.robot,
            "total_episodes": len(self.episodes),
            "total_frames": self.num_steps,
            "total_tasks": len(self.tasks),
            "fps": int(self.fps) if self.fps == int(self.fps) else self.fps,
            "features": features,
        }

    def described(self, episode: Episode) -> dict[str, Any]:
        """Return the members of an episode's row of ``meta/episodes`` that every one has."""
        numbers = dict.fromkeys(self.task_numbers[episode.positions].tolist())
        return {
            "episode_index": episode.number,
            "tasks": [self.tasks[one] for one in numbers],
            "length": len(episode.positions),
            "dataset_from_index": episode.start,
            "dataset_to_index": episode.stop,
        }

    def numbers(self, episode: Episode) -> dict[str, np.ndarray]:
        """Return the features of `NUMBERED` of an episode's steps."""
        steps = np.arange(len(episode.positions))
        return {
            "timestamp": (steps / self.fps).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(len(steps), episode.number),
            "index": episode.start + steps,
            "task_index": self.task_numbers[episode.positions],
        }

    def values(self, column: FeatureColumn, positions: np.ndarray) -> Any:
        """Read values of a feature: an array (steps, …), or a list of texts."""
        read = self.view.read(column.tensor, positions)
        if column.dtype == "string":
            return _texts(column.tensor, column.type, read, positions)
        whole = column.type.without_nulls(read, tensor=column.tensor)
        values = np.asarray(column.type.present(whole, tensor=column.tensor))
        if values.dtype == np.uint64 and len(values) and values.max() >= 1 << 63:
            at = int(np.argmax(values.reshape(len(values), -1).max(axis=1)))
            raise InvalidInputError(
                f"row {positions[at]} of {column.tensor!r} has {values[at].max()}, and LeRobot's"
                " integers are below 2**63\nleave the tensor out: columns=[…]",
                tensor=column.tensor,
                row=int(positions[at]),
            )
        return values

    def frames(self, column: FeatureColumn, positions: np.ndarray) -> list[np.ndarray]:
        """Read frames of a camera, each uint8 (height, width, 3).

        Raises:
            InvalidInputError: One is NULL, or has transparent pixels.
        """
        read = _pixels(self.view, column.tensor, column.type, positions)
        return [
            _rgb(one, tensor=column.tensor, row=row)
            for one, row in zip(read, positions.tolist(), strict=True)
        ]


def episode_steps(
    view: RowSet,
    columns: Sequence[str] | None,
    *,
    episode: str,
    fps: float | None,
    call: str,
) -> EpisodeSteps:
    """Return the steps of a view.

    Args:
        view: The rows.
        columns: Only these tensors.
        episode: The tensor whose value is a step's episode.
        fps: Steps per second; None: those of the LeRobot dataset that was ingested.
        call: The call that the user made, for errors.

    Raises:
        InvalidInputError: ``fps`` is unknown, or there is no such tensor.
        UnsupportedFeatureError: LeRobot does not support a tensor.
    """
    types = tensor_columns(view, columns, call=call)
    headers = read_headers(view, "lerobot")
    header = headers[-1] if headers else {}
    rate = header.get("fps") if fps is None else fps
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
        raise InvalidInputError(
            f"fps is the number of steps per second, got {shown(fps)}\ngive it: fps=10",
            argument="fps",
            actual=fps,
        )
    episodes = _episodes(view, episode)
    if not headers:
        _check_numbering(view, types, episodes, float(rate))
    tasks, numbers = _tasks(view, types, episodes)
    used = {episode, _STEP, _TIME, _TASK}
    known = header.get("features", {})
    cameras = sum(isinstance(untiled(one), Image) for one in types.values())
    made = [
        _column(view, name, untiled(one), known.get(name, {}), cameras)
        for name, one in types.items()
        if name not in used and episodes
    ]
    names = [one.name for one in made]
    repeated = sorted({one for one in names if names.count(one) > 1 or one in NUMBERED})
    if repeated:
        raise InvalidInputError(
            f"two tensors would be the feature {repeated[0]!r}\nrename one, or leave it out:"
            " columns=[…]"
        )
    return EpisodeSteps(view, float(rate), header.get("robot_type"), made, episodes, tasks, numbers)


def _episodes(view: RowSet, name: str) -> list[Episode]:
    """Group the rows by episode, in the order of their first steps."""
    if name not in view.schema:
        known = ", ".join(view.schema)
        raise InvalidInputError(
            f"there is no tensor {name!r}, whose value is a step's episode"
            f"\nname it: episode=…; tensors: {known}",
            argument="episode",
            actual=name,
        )
    kind = view.schema[name]
    if kind.shape or not (isinstance(kind, Text | ClassLabel) or _is_whole(kind)):
        message = f"{name!r} is {kind.describe()}; an episode is an integer, a class or a text"
        raise InvalidInputError(message, argument="episode", actual=name)
    if not len(view):
        return []
    column = view.read(name)
    values = np.asarray(kind.present(column, tensor=name))
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[inverse.reshape(-1)]
    order = np.argsort(rank, kind="stable")
    cuts = np.flatnonzero(np.diff(rank[order])) + 1
    parts = np.split(order, cuts)
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return [
        Episode(number, part, int(start))
        for number, (part, start) in enumerate(zip(parts, starts, strict=True))
    ]


def _is_whole(kind: SampleType) -> bool:
    return kind.dtype is not None and kind.dtype.kind in "iu" and not kind.is_media


def _tasks(
    view: RowSet, types: Mapping[str, SampleType], episodes: Sequence[Episode]
) -> tuple[list[str], np.ndarray]:
    """Return the texts of tasks in order of appearance, and the number of each row's."""
    kind = types.get(_TASK)
    count = sum(len(one.positions) for one in episodes)
    if kind is None:
        return ["step"], np.zeros(count, np.int64)
    column = view.read(_TASK)
    texts = _texts(_TASK, kind, column, np.arange(len(view)))
    order = dict.fromkeys(texts[at] for one in episodes for at in one.positions.tolist())
    numbers = {text: number for number, text in enumerate(order)}
    return [*order], np.array([numbers[one] for one in texts], np.int64)


def _texts(tensor: str, kind: SampleType, column: Column, positions: np.ndarray) -> list[str]:
    """Return texts, of classes their names.

    Raises:
        InvalidInputError: One is NULL, or no class.
    """
    texts: list[str] = []
    for at, row in enumerate(positions.tolist()):
        value = plain_value(kind.present_one(column, at))
        if value is None:
            raise InvalidInputError(
                f"row {row} of {tensor!r} is NULL, and LeRobot has no NULL"
                f"\nwrite rows that have it: ds.where({not_null(tensor)})",
                tensor=tensor,
                row=row,
            )
        texts.append(str(value))
    return texts


def _check_numbering(
    view: RowSet, types: Mapping[str, SampleType], episodes: Sequence[Episode], fps: float
) -> None:
    """Refuse steps and times that LeRobot's own numbering would replace by others.

    Raises:
        InvalidInputError: A tensor ``t`` is not the step, or ``timestamp`` not the step ÷ fps.
    """
    for name, per_step in ((_STEP, 1.0), (_TIME, 1 / fps)):
        kind = types.get(name)
        if kind is None or not len(view):
            continue
        is_number = kind.dtype is not None and kind.dtype.kind in "iuf" and not kind.shape
        values = np.full(len(view), np.nan)
        if is_number and not isinstance(kind, ClassLabel | Timestamp):
            whole = kind.without_nulls(view.read(name), tensor=name)
            values = np.asarray(kind.present(whole, tensor=name), np.float64)
        for one in episodes:
            expected = np.arange(len(one.positions)) * per_step
            differs = ~np.isclose(values[one.positions], expected, rtol=1e-6, atol=TOLERANCE_S)
            if differs.any():
                row = int(one.positions[np.argmax(differs)])
                what = "the number of the step" if name == _STEP else "the step ÷ fps"
                raise InvalidInputError(
                    f"row {row} of {name!r} is not {what}, {expected[np.argmax(differs)]:g}, which"
                    " LeRobot has in its place\nrename the tensor, or leave it out: columns=[…]",
                    tensor=name,
                    row=row,
                )


def _column(
    view: RowSet, tensor: str, kind: SampleType, known: Mapping[str, Any], cameras: int
) -> FeatureColumn:
    """Return the feature of a tensor: as it was ingested, or else named as the library names it."""
    name = str(known.get("name") or _feature_name(tensor, kind, cameras))
    if isinstance(kind, Image):
        first = np.asarray(_pixels(view, tensor, kind, np.array([0]))[0])
        height, width, channels = (*first.shape, 1)[:3]
        if channels not in {1, 3, 4} or first.dtype != np.uint8:
            raise _unsupported(tensor, kind)
        return FeatureColumn(tensor, kind, name, "video", (height, width, 3), None)
    names = known.get("names")
    if isinstance(kind, Text):
        return FeatureColumn(tensor, kind, name, "string", (1,), names)
    if isinstance(kind, ClassLabel) and not kind.is_many:
        return FeatureColumn(tensor, kind, name, "string", (1,), names)
    is_plain = kind.dtype is not None and kind.dtype.kind in "biuf" and not kind.is_media
    if (
        not is_plain
        or isinstance(kind, Json | Timestamp)
        or None in kind.shape
        or kind.dtype is None
    ):
        raise _unsupported(tensor, kind)
    shape = tuple(one or 0 for one in kind.shape) or (1,)
    return FeatureColumn(tensor, kind, name, kind.dtype.name, shape, names)


def _feature_name(tensor: str, kind: SampleType, cameras: int) -> str:
    """Return the library's name of a tensor; features have no "/"."""
    own = tensor.replace("/", ".")
    if isinstance(kind, Image):
        own = own.removeprefix("frame.")
        single = "observation.image" if cameras == 1 and own == "frame" else ""
        return single or f"observation.images.{own}"
    if own == "action" or own.startswith(("observation.", "action.", "next.")):
        return own
    return f"next.{own}" if own in _NEXT else f"observation.{own}"


def _unsupported(tensor: str, kind: SampleType) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"LeRobot does not support {tensor!r} ({kind.describe()}): a feature is a number, text, an"
        " array of one shape, or an image of 8 bits\nleave it out: columns=[…]",
        tensor=tensor,
    )


def _pixels(view: RowSet, tensor: str, kind: SampleType, positions: np.ndarray) -> list[np.ndarray]:
    """Read frames, uint8 (height, width, 3)."""
    read = view.read(tensor, positions)
    frames: list[np.ndarray] = []
    for at, row in enumerate(positions.tolist()):
        pixels = kind.present_one(read, at)
        if pixels is None:
            raise InvalidInputError(
                f"row {row} of {tensor!r} is NULL, and a video has a frame for each step"
                f"\nwrite rows that have it: ds.where({not_null(tensor)})",
                tensor=tensor,
                row=row,
            )
        frames.append(pixels)
    return frames


def _rgb(pixels: np.ndarray, *, tensor: str, row: int) -> np.ndarray:
    """Return an image with three channels: grey in each, or without an alpha that hides nothing."""
    if pixels.ndim == 2 or pixels.shape[2] == 1:  # noqa: PLR2004 - an axis of channels or none
        return np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)
    if pixels.shape[2] == 4 and bool((pixels[:, :, 3] < _OPAQUE).any()):  # noqa: PLR2004 - RGBA
        raise InvalidInputError(
            f"row {row} of {tensor!r} has transparent pixels, and a video has no transparency"
            "\nleave the tensor out: columns=[…], or store RGB images",
            tensor=tensor,
            row=row,
        )
    return pixels[:, :, :3]

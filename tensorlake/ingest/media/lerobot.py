"""LeRobot datasets: a row is a step of an episode.

    episode_index   frame_index   timestamp   task_index → text   observation.state   videos
    episode         t             timestamp   task                state               frame

``observation.`` and ``next.`` are left out of names. With one camera its frames are ``frame``,
otherwise ``frame/NAME`` for each. `episodes.py` reads the folder.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

import numpy as np

from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.ingest.engine.found_files import Piece
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.source import LoadedRows, given_settings, part_of
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.media.episodes import Episode, EpisodeFolder, Feature
from tensorlake.ingest.tables.arrow import check_pieces, ingest_pieces
from tensorlake.types import Array, Image, SampleType, Text, as_type, codec_of

__all__ = ["lerobot"]

Arrow = Any  # pyarrow ships no types

PIECE_NBYTES = 8 << 20
"""Decoded bytes of the steps that are read together."""

FIRST = {"episode_index": "episode", "frame_index": "t", "timestamp": "timestamp"}
"""Features of every dataset, and the tensors that they become."""

LEFT_OUT = "index"
"""The number of a step, which a row has anyway."""

_STARTS = ("observation.images.", "observation.image.", "observation.", "next.")


@shows_options
def lerobot(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a LeRobot dataset of version 3: each step of its episodes a row.

    Makes ``episode`` and ``t`` (int64, the step's number in its episode), ``timestamp`` (seconds),
    ``task`` (text), and a tensor for each other feature: ``observation.state`` is ``state``,
    ``next.reward`` is ``reward``, and the frames of a single camera are ``frame``, of several
    ``frame/NAME``. Frames of videos are decoded, and stored as PNG, so that windows of any steps
    read their own frames alone; images are stored as they are.

    Args:
        src: The folder that has ``meta/``, ``data/`` and ``videos/``, by path or URL.
        dst: Path or URL of the dataset.
        schema: Types by tensor; they override the features' own, such as
            ``{"frame": tl.Image("jpeg")}`` for frames that take less space.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions. The same
        call again adds episodes that were recorded since.

    Raises:
        InvalidInputError: It is not a LeRobot dataset of version 3, or damaged; the message names
            the file, the episode and the step.

    Example:
        >>> import tensorlake as tl
        >>> made = tl.create("memory://doc-steps", {"episode": "int64", "action": "float32"})
        >>> made.extend({"episode": [0, 0, 1], "action": [0.5, 1, 0]})
        >>> made.to_lerobot("pusht", fps=10)
        >>> ds = tl.ingest.lerobot("pusht", "memory://doc-ingest-lerobot")
        >>> ds["episode"][:], ds["t"][:]
        (array([0, 0, 1]), array([0, 1, 0]))
        >>> made.discard()
    """
    files = SourceFiles(options.get("storage_options"))
    folder = EpisodeFolder(src, files)
    tensors = tensor_names(folder.features)
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    is_strict = options.get("on_error", "raise") == "raise"
    first = _first_steps(folder, is_strict=is_strict)
    types: dict[str, SampleType] = {}
    for name, feature in tensors.items():
        own = _type_of(feature, first, folder)
        types[name] = given.get(name, own)
    unknown = next((name for name in given if name not in types), None)
    if unknown is not None:
        known = ", ".join(types)
        message = f"schema names the unknown tensor {unknown!r}{did_you_mean(unknown, types)}"
        raise InvalidInputError(f"{message}\ntensors: {known}", tensor=unknown)
    pieces = [piece for one in folder.episodes for piece in _pieces(one, folder.features)]
    check_pieces("lerobot", pieces)
    starts = [one.start for one in folder.episodes]

    def episode_of(piece: Piece) -> Episode:
        # An episode without steps begins where the next one does
        return folder.episodes[bisect_right(starts, piece.start) - 1]

    def load(items: Sequence[Piece]) -> LoadedRows:
        columns: dict[str, list[Any]] = {name: [] for name in types}
        for piece in items:
            episode = episode_of(piece)
            steps = folder.steps(episode, piece.start, piece.stop)
            for name, feature in tensors.items():
                columns[name] += [*_values(feature, steps, episode, folder)]

        def row_name(row: int) -> str:
            part, row = part_of(row, [piece.stop - piece.start for piece in items])
            episode = episode_of(items[part])
            return f"step {items[part].start + row - episode.start} of episode {episode.number}"

        return LoadedRows(columns, (), row_name)

    return ingest_pieces(
        "lerobot",
        pieces,
        types,
        load,
        dst,
        options,
        files=files,
        settings=given_settings(schema),
        src=src,
        stamp=folder.stamp,
        header=_header(folder, tensors),
    )


def tensor_names(features: Sequence[Feature]) -> dict[str, Feature]:
    """Return the feature of each tensor, by the tensor's name.

    Two features of one short name keep their own names.
    """
    cameras = [one for one in features if one.is_camera]
    wanted: dict[str, str] = {}
    for feature in features:
        if feature.name == LEFT_OUT:
            continue
        start = next((one for one in _STARTS if feature.name.startswith(one)), "")
        name = feature.name.removeprefix(start)
        if feature.is_camera:
            name = "frame" if len(cameras) == 1 else f"frame/{name}"
        elif feature.name in {"task_index", "subtask_index"}:
            name = feature.name.removesuffix("_index")
        wanted[feature.name] = FIRST.get(feature.name, name)
    taken = [*wanted.values()]
    made: dict[str, Feature] = {}
    for feature in sorted(features, key=lambda one: one.name not in FIRST):
        short = wanted.get(feature.name)
        if short is None:
            continue
        name = short if taken.count(short) == 1 or feature.name in FIRST else feature.name
        while name in made:
            name += "_"
        made[name] = feature
    order = ["episode", "t", "timestamp"]
    return {name: made[name] for name in [*order, *made] if name in made}


def _first_steps(folder: EpisodeFolder, *, is_strict: bool) -> Arrow:
    """Return the first step, by which images are known by their codec; None without steps."""
    for episode in folder.episodes:
        if episode.stop == episode.start:
            continue
        try:
            return folder.steps(episode, episode.start, episode.start + 1)
        except InvalidInputError:
            if is_strict:
                raise
    return None


def _type_of(feature: Feature, first: Arrow, folder: EpisodeFolder) -> SampleType:
    if feature.dtype == "video":
        return Image("png")
    if feature.dtype == "image":
        content = _image_of(first[feature.name][0].as_py()) if first is not None else b""
        codec = codec_of(content or b"")
        return Image(codec or "png")
    name = feature.name.removesuffix("_index")
    if name in folder.texts and folder.texts[name] and feature.name != name:
        return Text()
    if feature.dtype == "string":
        return Text()
    try:
        dtype = np.dtype(feature.dtype)
    except TypeError as error:
        raise InvalidInputError(
            f"the feature {feature.name!r} has the dtype {feature.dtype!r}, of which there is no"
            " tensor",
            tensor=feature.name,
            actual=feature.dtype,
        ) from error
    return as_type(dtype) if feature.shape == (1,) else Array(dtype, feature.shape)


def _pieces(episode: Episode, features: Sequence[Feature]) -> Iterator[Piece]:
    """Cut an episode into steps that are read together."""
    nbytes = 1 + sum(math.prod(one.shape) for one in features if one.is_camera)
    nbytes += sum(8 * math.prod(one.shape) for one in features if not one.is_camera)
    count = max(1, PIECE_NBYTES // nbytes)
    for start in range(episode.start, episode.stop, count):
        stop = min(start + count, episode.stop)
        yield Piece(episode.data, start, stop, nbytes * (stop - start))


def _values(
    feature: Feature, steps: Arrow, episode: Episode, folder: EpisodeFolder
) -> Sequence[Any] | np.ndarray:
    """Return the values of a feature for some steps of an episode."""
    if feature.dtype == "video":
        seconds = steps["timestamp"].to_numpy().astype(np.float64)
        return folder.frames(feature.name, episode, seconds)
    column = steps[feature.name]
    if column.null_count:
        message = f"episode {episode.number} has no {feature.name!r} for some steps"
        raise InvalidInputError(message, tensor=feature.name)
    if feature.dtype == "image":
        return [_image_of(one) for one in column.to_pylist()]
    if feature.dtype == "string":
        return column.to_pylist()
    texts = folder.texts.get(feature.name.removesuffix("_index"))
    if texts and feature.name.endswith("_index"):
        numbers = column.to_pylist()
        unknown = next((one for one in numbers if one not in texts), None)
        if unknown is not None:
            what = feature.name.removesuffix("_index")
            message = f"episode {episode.number} has the {what} {unknown}, which meta/ does not"
            raise InvalidInputError(message, actual=unknown)
        return [texts[one] for one in numbers]
    values = np.array(column.to_pylist(), np.dtype(feature.dtype))
    shape = () if feature.shape == (1,) else feature.shape
    if values.shape != (len(column), *shape) and values.size == len(column) * math.prod(shape):
        values = values.reshape(len(column), *shape)
    return values


def _image_of(value: Any) -> bytes | None:
    return value.get("bytes") if isinstance(value, dict) else value


def _header(folder: EpisodeFolder, tensors: Mapping[str, Feature]) -> dict[str, Any]:
    """Return what belongs to no step, for `to_lerobot`."""
    return {
        "fps": folder.fps,
        "robot_type": folder.robot,
        "features": {
            name: {"name": one.name, "dtype": one.dtype, "shape": [*one.shape], "names": one.names}
            for name, one in tensors.items()
        },
    }

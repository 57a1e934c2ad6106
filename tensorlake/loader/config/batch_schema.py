"""The columns of a batch, decided from the schema before any data is read.

    type of the tensor + decode spec + collate  ─►  ColumnPlan
        "row"       _row, the number of the row in the version
        "virtual"   computed by a query, or _source of a mix: known by position
        "uniform"   one array, gathered at once (value steps applied to the whole batch)
        "image"   decoded by threads, into one array where the spec gives one shape
        "decoded"   rows of several images, and parts of samples, decoded by threads to one array
                    each, or into one array where all have one shape
        "ragged"    arrays of different shapes, collated
        "encoded"   text, JSON, bytes, masks of objects: a list

Requests that cannot work are refused here: unknown names, differing shapes, and geometric steps on
an image that would leave a tensor declared ``of=`` it behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from tensorlake.errors import (
    InvalidInputError,
    TensorNotFoundError,
    did_you_mean,
)
from tensorlake.loader.config.collate import (
    check_collate,
    check_fill,
    parse_collate,
)
from tensorlake.loader.config.column_plan import ROW, VALID, ColumnPlan, row_column
from tensorlake.loader.config.companions import moved_images, refuse_left_behind, with_companions
from tensorlake.loader.config.cuts import Cuts, decoded_as, warn_of_other_draws
from tensorlake.loader.config.mixing import with_mixes
from tensorlake.loader.config.nulls import null_column, null_in_column
from tensorlake.loader.decode import (
    ClipDecoder,
    DecodeSpec,
    ImageDecoder,
    PartDecoder,
    Resampler,
    Turn,
    choose_resampler,
    parse_steps,
)
from tensorlake.quantities import human_nbytes
from tensorlake.types import Image, Link, Mesh, SampleType, Sequence, Video

if TYPE_CHECKING:
    from tensorlake.loader.plan.selection import Snapshot
    from tensorlake.loader.plan.virtual_columns import VirtualColumn

__all__ = [
    "IMAGE_NDIM",
    "Planning",
    "channels_first",
    "plan_columns",
]

IMAGE_NDIM = 3
WARN_ABOVE = 5
MOST_NBYTES = 1 << 30
"""Bytes of the part of one sample in a batch."""
_NIFTI = "tl.Nifti('float32')"
_PART_STEPS = {"video": "Clip(16)", "point_cloud": "PointSample(1024)"}
CAST = "end decode={{{name!r}: […]}} with tl.decode.Cast('int32')"
# Looks up the smallest and largest stored shape of a tensor; for errors only.
Bounds: TypeAlias = Callable[[str], tuple[tuple[int, ...], tuple[int, ...]] | None]
# Looks up the shape that every row of the selection has along some axes, or that they differ.
ShapeOf: TypeAlias = Callable[[str, slice], tuple[int, ...] | None]
ALL_AXES, FRAME_AXES = slice(None), slice(1, None)
# Looks up the first row of the selection in which a tensor is NULL.
FirstNull: TypeAlias = Callable[[str], int | None]


@dataclass(frozen=True, slots=True)
class Planning:
    """Inputs that columns are planned from.

    Attributes:
        snapshot: The version.
        seed: Seed of the random steps.
        framework: Framework of the batches' arrays.
        lists_null: Whether lists may hold NULL.
        bounds: Looks up the shapes that an error reports.
        shape_of: Looks up whether all samples have one shape, along some axes.
        transforms: Whether a user function gets each row before it is collated.
        null: Replacement for NULL, by name.
        first_null: Looks up whether a column has NULLs.
    """

    snapshot: Snapshot
    seed: int
    framework: str
    lists_null: bool
    bounds: Bounds
    shape_of: ShapeOf
    transforms: bool
    null: Mapping[str, Any]
    first_null: FirstNull


def plan_columns(
    planning: Planning,
    columns: Iterable[str],
    *,
    decode: Mapping[str, Any] | None,
    collate: Mapping[str, Any] | None,
    virtual: Mapping[str, VirtualColumn],
) -> tuple[ColumnPlan, ...]:
    """Plan each column of a batch, or of the rows passed to a transform where there is one.

    Raises:
        TensorNotFoundError: A column does not exist.
        RaggedBatchError: Samples differ in shape and no collation is given.
        InvalidInputError: An argument names a column that is not read, or does not fit it.
        UnsupportedFeatureError: An image would move without the tensors declared ``of=`` it.
    """
    names = [name for name in dict.fromkeys(columns) if name != VALID]  # it is added separately
    if not names:
        raise InvalidInputError("no columns are read\ngive columns=[…], or leave it out for all")
    cuts = Cuts.of(_parse_decode(decode, names), names, planning.snapshot.schema)
    specs = cuts.specs
    # transformed rows are collated afterwards: see stages/stack.py
    collates = {} if planning.transforms else parse_collate(collate, names)
    planned = {
        name: row_column()
        if name == ROW
        else _virtual_column(name, virtual[name], specs.get(name), collates.get(name), planning)
        if name in virtual
        else _plan_column(name, specs.get(name), collates.get(name), planning, cuts)
        for name in names
    }
    for name in planning.null:
        if name not in planned or name == ROW:
            raise InvalidInputError(
                f"null names {name!r}, which is not among the columns: {', '.join(names)}"
                f"{did_you_mean(name, names)}\nadd it to columns=, or leave it out of null",
                tensor=name,
            )
        planned[name] = _with_null(planned[name], planning.null[name])
    moved = moved_images(planned)
    for column in planned.values():
        refuse_left_behind(column, planned, moved, planning.snapshot.schema)
    found = [with_companions(column, planned, moved) for column in planned.values()]
    dense = [_stacked(column, planned, collates, planning) for column in found]
    for column in dense:
        _refuse_nulls(column, planning)
    by_name = {column.name: column for column in dense}
    made = with_mixes(by_name, specs, seed=planning.seed, transforms=planning.transforms)
    warn_of_other_draws(made.values(), planning.bounds, stacklevel=WARN_ABOVE)
    return tuple(made.values())


def _parse_decode(decode: Mapping[str, Any] | None, names: list[str]) -> dict[str, DecodeSpec]:
    given = dict(decode or {})
    for name in given:
        if name not in names or name == ROW:
            raise InvalidInputError(
                f"decode names {name!r}, which is not among the columns: {', '.join(names)}"
                f"{did_you_mean(name, names)}"
                "\nadd it to columns=, or leave it out of decode",
                tensor=name,
            )
    return {name: parse_steps(name, steps) for name, steps in given.items()}


def _virtual_column(
    name: str, column: VirtualColumn, spec: DecodeSpec | None, collate: Any, planning: Planning
) -> ColumnPlan:
    if spec is not None:
        raise InvalidInputError(
            f"decode names {name!r}, which is computed and not stored\nleave it out of decode",
            tensor=name,
        )
    if column.dtype is None:
        if collate not in (None, "list"):
            raise InvalidInputError(
                f"{name!r} comes as a list\nleave it out of collate=", tensor=name
            )
        return ColumnPlan(name, None, "virtual")
    form = check_collate(name, column.shape, collate, is_image=False, framework=planning.framework)
    return ColumnPlan(name, None, "virtual", column.shape, column.dtype, form)


def _plan_column(
    name: str, spec: DecodeSpec | None, collate: Any, planning: Planning, cuts: Cuts
) -> ColumnPlan:
    if name.startswith("_"):
        raise TensorNotFoundError(
            f"no column {name!r} in a loader; the virtual ones are {ROW!r}, '_row_id' (not of a"
            f" mix), '_source' and {VALID!r}",
            tensor=name,
        )
    framework, seed = planning.framework, planning.seed
    sample_type = planning.snapshot.spec(name).type
    dtype = sample_type.dtype
    if spec is not None and name not in cuts.leads:
        spec.check_part(decoded_as(sample_type))
    if isinstance(sample_type, Image) and not sample_type.has_parts:
        spec = spec or DecodeSpec(name, (), ())
        decoder = ImageDecoder(name, sample_type, spec, _resampler_for(spec), seed)
        if planning.transforms and (decoder.output_shape is None or sample_type.nullable):
            collate = "list"  # for the transform, which may make them of one size
        elif decoder.output_shape is None and collate is None:
            decoder = replace(decoder, stored=planning.shape_of(name, ALL_AXES))
        shape = decoder.output_shape or sample_type.shape
        spec.check(sample_type.shape, sample_type.dtype)
        form = check_collate(
            name,
            shape,
            collate,
            is_image=True,
            framework=framework,
            bounds=partial(planning.bounds, name),
        )
        check_fill(name, form, decoder.output_dtype, cast=CAST.format(name=name))
        return ColumnPlan(name, sample_type, "image", shape, decoder.output_dtype, form, decoder)
    if isinstance(sample_type, Sequence) and isinstance(sample_type.item, Image) and spec:
        clips = _clip_decoder(name, sample_type, spec, seed)
        shape, dtype = clips.output_shape, clips.images.output_dtype
        form = check_collate(name, shape, collate, is_image=False, framework=framework)
        check_fill(name, form, dtype, cast=CAST.format(name=name))
        return ColumnPlan(
            name, sample_type, "decoded", shape, dtype, form or "list", row_decoder=clips
        )
    if sample_type.has_parts and (spec is not None or not sample_type.is_lazy):
        return _part_column(name, spec or DecodeSpec(name, (), ()), collate, planning, cuts)
    if dtype is None or sample_type.layout == "encoded":
        if spec is not None or collate not in (None, "list"):
            raise InvalidInputError(
                f"{name!r} is {sample_type.describe()}, which comes as a list"
                f"\nleave {name!r} out of decode= and collate=",
                tensor=name,
            )
        files = planning.snapshot.packs.links if isinstance(sample_type, Link) else None
        return ColumnPlan(name, sample_type, "encoded", files=files)
    if spec is not None and (spec.geometric or spec.pixels):
        raise InvalidInputError(
            f"decode of {name!r}: {(*spec.geometric, *spec.pixels)[0]!r} is for images,"
            f" and {name!r} is {sample_type.describe()}"
            f"\nleave {name!r} out of decode, or do it in transform=",
            tensor=name,
        )
    linear = None
    if spec is not None:
        spec.check(sample_type.shape, dtype)
        linear = spec.linear_map(dtype)
    result = dtype if linear is None else linear.dtype
    if sample_type.layout == "ragged":
        form = check_collate(name, sample_type.shape, collate, is_image=False, framework=framework)
        check_fill(name, form, result, cast=CAST.format(name=name))
        shape = sample_type.shape
        return ColumnPlan(name, sample_type, "ragged", shape, result, form or "list", linear=linear)
    form = check_collate(name, sample_type.shape, collate, is_image=False, framework=framework)
    return ColumnPlan(name, sample_type, "uniform", sample_type.shape, result, form, linear=linear)


def _part_column(
    name: str, spec: DecodeSpec, collate: Any, planning: Planning, cuts: Cuts
) -> ColumnPlan:
    sample_type = decoded_as(planning.snapshot.spec(name).type)
    dtype = sample_type.dtype if spec.part is None else spec.part.output_dtype(sample_type)
    own = sample_type.linked if isinstance(sample_type, Link) else sample_type
    whole = own if isinstance(own, Image) and spec.part is None else None
    gives_images = whole is not None or (spec.part is not None and spec.part.gives_images)
    gives_images &= name not in cuts.leads or isinstance(sample_type, Video)
    turns: tuple[Turn, ...] = ()
    if spec.part is not None and spec.part.gives_boxes and not spec.pixels:
        box = spec.part.output_shape(sample_type)[int(spec.part.stacks) :]
        lead = cuts.types[cuts.leads.get(name, name)]
        turns = spec.turns(box, is_image=isinstance(lead, Image))
        spec = replace(spec, geometric=())
    is_moved = bool(spec.geometric or spec.pixels) and not gives_images
    if is_moved or (spec.part is None and sample_type.is_lazy):
        raise _no_part(name, sample_type, spec)
    if dtype is None:
        several = f"decode of {name!r}: {sample_type.describe()} has samples of several dtypes"
        declared = "tl.Dicom(dtype='float32')" if sample_type.kind == "dicom" else _NIFTI
        raise InvalidInputError(f"{several}\ndeclare one: {declared}", tensor=name)
    made = PartDecoder(
        name,
        sample_type,
        spec.part,
        spec.linear_map(dtype),
        planning.seed,
        is_linked=isinstance(planning.snapshot.spec(name).type, Link),
        turns=turns,
        lead=cuts.leads.get(name),
        others=cuts.others(name),
    )
    if gives_images:
        kind = whole or Image("png")
        images = ImageDecoder(name, kind, spec, _resampler_for(spec), planning.seed)
        if images.output_shape is None and collate is None and not planning.transforms:
            axes = FRAME_AXES if whole is None else ALL_AXES
            images = replace(images, stored=planning.shape_of(name, axes))
        made = replace(made, images=images)
    shape, result = made.output_shape, made.output_dtype
    spec.check(shape, dtype)
    _refuse_huge(name, shape, result)
    if planning.transforms and (None in shape or sample_type.nullable):
        collate = "list"  # for the transform, which may make them of one shape
    form = check_collate(
        name,
        shape,
        collate,
        is_image=gives_images and (shape[0] is not None or own is whole is sample_type),
        framework=planning.framework,
        bounds=partial(planning.bounds, name),
    )
    check_fill(name, form, result, cast=CAST.format(name=name))
    form = form or ("list" if None in shape else None)
    return ColumnPlan(name, sample_type, "decoded", shape, result, form, row_decoder=made)


def _refuse_huge(name: str, shape: tuple[int | None, ...], dtype: np.dtype) -> None:
    """Refuse parts that would fill the memory, before any is read."""
    nbytes = math.prod(length for length in shape if length is not None) * dtype.itemsize
    if nbytes > MOST_NBYTES:
        raise InvalidInputError(
            f"the part of each sample of {name!r} that decode= or windows() asks for, {dtype} of"
            f" shape {shape}, has {human_nbytes(nbytes)}; at most {human_nbytes(MOST_NBYTES)} of a"
            " sample\ngive a smaller size, or fewer parts",
            tensor=name,
            actual=nbytes,
        )


def _no_part(name: str, sample_type: SampleType, spec: DecodeSpec) -> InvalidInputError:
    """Build the error for steps of which none chooses the part of a sample."""
    what = f"decode of {name!r}, {sample_type.describe()}"
    if isinstance(sample_type, Mesh):
        message = f"{what}: no step takes meshes\nleave {name!r} out of decode, and use transform="
        return InvalidInputError(message, tensor=name)
    if spec.part is not None:
        moved = (*spec.geometric, *spec.pixels)[0]
        return InvalidInputError(
            f"{what}: {moved!r} is for images and videos, and {type(spec.part).__name__} gives"
            " arrays\nput steps that change numbers after it, such as tl.decode.ToFloat(), and"
            " mirror parts with their masks in transform= or batch_transform=",
            tensor=name,
        )
    step = _PART_STEPS.get(sample_type.kind, "RandomPatch(size)")
    after = "images" if sample_type.kind == "video" else "numbers"
    return InvalidInputError(
        f"{what}: the first step chooses the part of each sample that is read"
        f"\ngive one such as tl.decode.{step}, then steps that change {after}",
        tensor=name,
    )


def _clip_decoder(name: str, clip: Sequence, spec: DecodeSpec, seed: int) -> ClipDecoder:
    spec.check(clip.item.shape, clip.item.dtype or np.dtype("uint8"))
    images = ImageDecoder(name, clip.item, spec, _resampler_for(spec), seed)
    shape = images.output_shape
    if shape is None:
        raise InvalidInputError(
            f"decode of {name!r} leaves its images, {clip.item.describe()}, of different shapes"
            "\nadd a step that gives them one size, such as tl.decode.Resize(224, 224), and name"
            " a mode in the type where they have different channels",
            tensor=name,
        )
    return ClipDecoder(clip, images, shape)


def _resampler_for(spec: DecodeSpec) -> Resampler | None:
    """Choose a resampler if the spec resizes; otherwise no library is needed."""
    return choose_resampler() if any(step.resizes for step in spec.geometric) else None


def _stacked(
    column: ColumnPlan,
    planned: Mapping[str, ColumnPlan],
    collates: Mapping[str, Any],
    planning: Planning,
) -> ColumnPlan:
    """Stack the masks of images that become of one size."""
    decoder = planned[column.moves_with].images if column.moves_with and column.is_dense else None
    if decoder is None or decoder.output_shape is None:
        return column
    shape, name = decoder.output_shape[:2], column.name
    collate = collates.get(name)
    if planning.transforms and column.type is not None and column.type.nullable:
        collate = "list"
    form = check_collate(name, shape, collate, is_image=False, framework=planning.framework)
    return replace(column, shape=shape, collate=form)


def _with_null(column: ColumnPlan, value: Any) -> ColumnPlan:
    """Set the value that replaces NULL."""
    if column.type is None:
        return replace(column, null=value)
    stored = None if column.decoder is None else column.decoder.stored
    return replace(column, null=null_column(column.name, column.type, value, shape=stored))


def _refuse_nulls(column: ColumnPlan, planning: Planning) -> None:
    """Refuse NULLs that a batch cannot represent."""
    sample_type = column.type
    is_list = column.kind == "encoded" or column.collate == "list"
    has_place = callable(column.collate) or (is_list and planning.lists_null)
    has_place |= bool(column.parts and column.parts.step and column.parts.step.leaves_null)
    if sample_type is None or column.null is not None or has_place or planning.transforms:
        return
    row = planning.first_null(column.name) if sample_type.nullable else None
    if row is not None:
        raise null_in_column(column.name, sample_type, row, lists_null=planning.lists_null)


def channels_first(entry: Any) -> Any:  # Any: an entry of a batch
    """Move the channels of images before their height, without a copy.

    Images are stacked, with other axes before, or listed; entries without pixels stay unchanged.
    """
    if isinstance(entry, list):
        return [_with_channels_first(one, IMAGE_NDIM) for one in cast("list[Any]", entry)]
    return _with_channels_first(entry, IMAGE_NDIM + 1)


def _with_channels_first(value: Any, least_ndim: int) -> Any:
    is_images = isinstance(value, np.ndarray) and value.ndim >= least_ndim
    return np.moveaxis(value, -1, -IMAGE_NDIM) if is_images else value

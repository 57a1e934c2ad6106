"""Staging changes of the schema: tensors added, dropped, renamed, altered; class names.

No change rewrites a chunk. Samples stored under an older type are converted to the newer one when
read, so a change is allowed where every stored sample is one of the new type: because of the types
(a wider dtype), or because every row was looked at (no NULL left, a class that no row has).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.core.structs import expand_names, flattened, members_of
from tensorlake.dataset.write.schema_checks import count_rows_of_classes, find_null
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.format import Schema, TensorSpec, canonical_bytes
from tensorlake.quantities import plural
from tensorlake.reading import Reader
from tensorlake.types import (
    NO_DEFAULT,
    ClassLabel,
    SampleType,
    Struct,
    as_type,
    check_scaled,
    expand_structs,
    unknown_class,
    widened,
    with_tiles_of,
)
from tensorlake.versions import Transaction, check_text

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "NamesChange",
    "add_tensor",
    "alter_tensor",
    "change_names",
    "drop_tensor",
    "rename_tensor",
]

NamesChange = Literal["add", "rename", "drop"]

SHOWN_CLASSES = 12
METADATA_NBYTES_MAX = 16_384
"""As an entry's own metadata (format.md): the schema is read with every version."""


def add_tensor(session: Session, name: str, sample_type: Any, fill: Any) -> None:
    """Stage a new tensor, every row of which has the fill; of a Struct, a tensor a field."""
    if isinstance(sample_type, Struct):
        _add_struct(session, name, sample_type, fill)
        return
    declared = as_type(sample_type)
    if fill is NO_DEFAULT:
        fill = declared.fill_value
    elif fill is None:
        declared = replace(declared, nullable=True)
    else:
        fill = _stored_fill(name, declared, fill)
    with session.lock:
        transaction = session.staging()
        there = {one.name: one.type for one in transaction.schema}
        declared = with_tiles_of({name: declared}, there)[name]
        check_scaled({name: declared}, there)
        with _kept_readers(session, transaction, f"{name!r} cannot be added"):
            transaction.add_tensor(replace(TensorSpec.new(name, declared), fill=fill))


def _stored_fill(name: str, declared: SampleType, fill: Any) -> Any:
    declared.convert([fill], tensor=name, call="add_tensor(fill=)")
    stored = declared.json_value(fill)
    try:
        canonical_bytes(stored)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"add_tensor(fill=): {name!r} expects {declared.expected} that JSON has a word for,"
            f" since the schema keeps it so: no NaN, nothing infinite or complex; got {shown(fill)}"
            f"\ngive fill=None for NULL, or another fill and then ds[{name!r}][:] = values",
            tensor=name,
            expected=declared.expected,
            actual=fill,
        ) from error
    return stored


def _add_struct(session: Session, name: str, struct: Struct, fill: Any) -> None:
    types = expand_structs({name: struct})
    fills: Mapping[str, Any] = {}
    if fill is not NO_DEFAULT:
        given = flattened({name: [fill]}, tuple(types), call="add_tensor(fill=)")
        fills = {member: values[0] for member, values in given.items()}
    with session.lock:
        transaction = session.staging()
        savepoint = transaction.savepoint()
        try:
            for member, declared in types.items():
                add_tensor(session, member, declared, fills.get(member, NO_DEFAULT))
        except BaseException:
            transaction.roll_back(savepoint)
            raise


def drop_tensor(session: Session, name: str) -> None:
    """Stage that a tensor is gone, or all of a group."""
    with session.lock:
        transaction = session.staging()
        schema = transaction.schema
        dropped = [schema[one] for one in expand_names([name], schema.names)]
        ids = {one.id for one in dropped}
        _refuse_reasons(schema, dropped)
        reasons = [one for one in schema if one.compute and one.compute.reasons_of in ids]
        dropped += [one for one in reasons if one.id not in ids]  # a group may have its own
        if 1 < len(schema.names) == len(dropped):  # before any of them is gone
            raise SchemaError(
                f"{name!r} has all tensors of {session.store.url!r}; a dataset has at least one"
                "\nadd another first: ds.add_tensor(…)",
                tensor=name,
            )
        with _kept_readers(session, transaction, f"{name!r} cannot be dropped"):
            for spec in dropped:
                transaction.drop_tensor(spec)


def _refuse_reasons(schema: Schema, dropped: Sequence[TensorSpec]) -> None:
    """Refuse to drop the reasons of failures alone: a retry finds the rows by them."""
    ids = {one.id for one in dropped}
    for one in dropped:
        of = schema.by_id(one.compute.reasons_of or "") if one.compute else None
        if of is not None and of.id not in ids:
            raise SchemaError(
                f"{one.name!r} cannot be dropped: it has the reasons of {of.name!r}, by which"
                f" refresh_columns(retry=True) finds the rows\nit goes with its column:"
                f" ds.drop_tensor({of.name!r})",
                tensor=one.name,
            )


@contextmanager
def _kept_readers(session: Session, transaction: Transaction, what: str) -> Generator[None]:
    """Stage changes of a schema, unless a check or a computed column reads what they take away.

    Args:
        session: The handle's.
        transaction: Where the changes of the block are staged: all of them or none.
        what: Their description, for the error: "'low' cannot be renamed".

    Raises:
        SchemaError: Something would not fit the tensors any more.
    """
    savepoint, before = transaction.savepoint(), transaction.schema
    try:
        yield
        _refuse_misfits(session, before, transaction.schema, what)
    except BaseException:
        transaction.roll_back(savepoint)
        raise


def _refuse_misfits(session: Session, before: Schema, after: Schema, what: str) -> None:
    """Refuse a schema on which something cannot be evaluated that can be on the one before."""
    found = session.misfits(session, after)
    known = {one.reader for one in session.misfits(session, before)} if found else set[str]()
    for one in found:
        if one.reader not in known:
            spec = before.by_id(one.tensor_id)
            raise SchemaError(
                f"{what}: {one.reader} reads it, and {one.why}\nchange that first: {one.advice}",
                tensor=None if spec is None else spec.name,
            )


def rename_tensor(session: Session, old: str, new: str) -> None:
    """Stage another name for a tensor, or for a group."""
    for name in (old, new):
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"rename_tensor() takes two names, got {shown(name)}\n"
                "write rename_tensor('old', 'new')",
                actual=name,
            )
    with session.lock:
        transaction = session.staging()
        names = transaction.schema.names
        if old not in names and (members := members_of(old, names)):
            savepoint = transaction.savepoint()
            try:
                for member in members:
                    rename_tensor(session, member, new + member[len(old) :])
            except BaseException:
                transaction.roll_back(savepoint)
                raise
            return
        renamed = transaction.schema.rename(old, new)[new]
        with _kept_readers(session, transaction, f"{old!r} cannot be renamed"):
            transaction.change_spec(renamed, what="rename")
            for spec in transaction.schema.tensors:
                if spec.compute and spec.compute.reasons_of == renamed.id:
                    transaction.change_spec(replace(spec, name=f"{new}.error"), what="rename")
                # Boxes of an image, labels per box: they go with the tensor they speak of.
                cites = [name for name in ("of", "per") if getattr(spec.type, name, None) == old]
                if cites:
                    declared = replace(spec.type, **dict.fromkeys(cites, new))
                    transaction.change_spec(replace(spec, type=declared), what="type")


def alter_tensor(
    session: Session,
    name: str,
    *,
    nullable: bool | None = None,
    dtype: DTypeLike | None = None,
    shape: Iterable[int | None] | None = None,
    codec: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Stage another type, or other metadata, for a tensor; all of it or nothing."""
    if all(one is None for one in (nullable, dtype, shape, codec, metadata)):
        raise InvalidInputError(
            f"alter_tensor({shown(name)}) specifies no change\n"
            "pass nullable=, dtype=, shape=, codec= or metadata=",
            tensor=name,
        )
    if nullable is not None and not isinstance(nullable, bool | np.bool_):
        raise InvalidInputError(
            f"alter_tensor({shown(name)}, nullable={shown(nullable)})\ngive True or False",
            tensor=name,
        )
    noted = None if metadata is None else _metadata(name, metadata)
    with session.lock:
        transaction = session.staging()
        spec = transaction.schema[name]
        if spec.is_virtual and any(one is not None for one in (nullable, dtype, shape, codec)):
            raise SchemaError(
                f"{name!r} is computed by an expression, which decides its type\ndrop it, and add"
                f" it again with another type: ds.drop_tensor({name!r})",
                tensor=name,
            )
        declared = widened(spec.type, dtype=dtype, shape=shape, codec=codec, tensor=name)
        must_check = nullable is False and spec.type.nullable
        if nullable is not None and nullable is not spec.type.nullable:
            declared = replace(declared, nullable=nullable)
        if must_check:
            _refuse_nulls(_reader(session), spec)
        if declared != spec.type:
            spec = spec.with_type(declared)
            with _kept_readers(session, transaction, f"the type of {name!r} cannot be changed"):
                transaction.change_spec(spec, what="type", is_checked=must_check)
        if noted is not None and noted != spec.attributes:
            transaction.change_spec(replace(spec, attributes=noted), what="metadata")


def change_names(session: Session, name: str, how: NamesChange, names: Sequence[str]) -> None:
    """Stage a change of class names; "rename" takes the old and the new name."""
    match how:
        case "add":
            _add_names(session, name, names)
        case "rename":
            _rename_class(session, name, *names)
        case "drop":
            _drop_names(session, name, names)


def _add_names(session: Session, name: str, names: Sequence[str]) -> None:
    """Stage new classes, which get the next codes."""
    added = _listed(names, "add_names")
    with session.lock:
        transaction = session.staging()
        spec, label = _class_label(transaction.schema[name], "add_names()")
        if not all(isinstance(one, str) and one for one in added):
            raise SchemaError(f"class names are non-empty texts; got {shown(added)}", tensor=name)
        known = set(label.names)
        for one in added:
            if check_text(one, what="the class name") in known:
                raise SchemaError(
                    f"{name!r} has a class {shown(one)} already, or was given it twice\n"
                    "names must differ; give only new ones",
                    tensor=name,
                    actual=one,
                )
            known.add(one)
        if added:
            what = f"classes cannot be added to {name!r}"
            with _kept_readers(session, transaction, what):
                names = [*label.names, *added]
                transaction.change_spec(spec.with_classes(names), what="names")


def _rename_class(session: Session, name: str, old: str, new: str) -> None:
    """Stage another name for a class; its code and rows stay."""
    with session.lock:
        transaction = session.staging()
        spec, label = _class_label(transaction.schema[name], "rename()")
        if not isinstance(old, str):
            raise SchemaError(f"a class is named by a string, got {shown(old)}", tensor=name)
        code = _code(label, old, name)
        if old == new:
            return
        is_name = isinstance(new, str)
        if not is_name or not new or new in label.names:
            raise SchemaError(
                f"class {shown(old)} of {name!r} cannot be renamed to {shown(new)}: "
                + (
                    "that is another class"
                    if is_name and new in label.names
                    else "a name is a non-empty text"
                )
                + "\nto unite two classes assign: "
                f"ds[{name!r}][ds[{name!r}] == {shown(old)}] = …, then drop_names",
                tensor=name,
                actual=new,
            )
        names = [*label.names]
        names[code] = new
        what = f"class {shown(old)} of {name!r} cannot be renamed"
        with _kept_readers(session, transaction, what):
            transaction.change_spec(spec.with_classes(names), what="names")


def _drop_names(session: Session, name: str, names: Sequence[str]) -> None:
    """Stage that classes are gone, which no row may have; their codes are never used again."""
    dropped = _listed(names, "drop_names")
    with session.lock:
        transaction = session.staging()
        spec, label = _class_label(transaction.schema[name], "drop_names()")
        codes = [_code(label, one, name) for one in dropped]
        if not codes:
            return
        _refuse_used(_reader(session), spec, label, codes)
        left = ["" if code in codes else one for code, one in enumerate(label.names)]
        listed = ", ".join(shown(one, in_list=True) for one in dropped)
        with _kept_readers(
            session, transaction, f"classes of {name!r} cannot be dropped: {listed}"
        ):
            transaction.change_spec(spec.with_classes(left), what="names", is_checked=True)


def _metadata(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):  # pyright: ignore[reportUnnecessaryIsInstance] - users give other things
        raise InvalidInputError(
            f"metadata of {shown(name)} are {shown(metadata)}, not a dict with str keys\n"
            "give a dict: metadata={'unit': 'm'}",
            tensor=name,
        )
    noted = dict(metadata)
    nbytes = len(canonical_bytes(noted))
    if nbytes > METADATA_NBYTES_MAX:
        raise InvalidInputError(
            f"metadata of {shown(name)} take {nbytes:,} bytes; a tensor has room for"
            f" {METADATA_NBYTES_MAX:,}\nkeep them as a tensor, or beside the dataset",
            tensor=name,
            expected=METADATA_NBYTES_MAX,
            actual=nbytes,
        )
    return noted


def _reader(session: Session) -> Reader:
    return session.reader(session.snapshot())


def _refuse_nulls(reader: Reader, spec: TensorSpec) -> None:
    row = find_null(reader, spec)
    if row is not None:
        raise SchemaError(
            f"{spec.name!r} is NULL in row {row}, so it cannot get nullable=False\n"
            f"assign values first: ds[{spec.name!r}][ds[{spec.name!r}].is_null()] = …",
            tensor=spec.name,
            row=row,
        )


def _refuse_used(reader: Reader, spec: TensorSpec, label: ClassLabel, codes: list[int]) -> None:
    if label.has_default and label.default in codes:
        raise SchemaError(
            f"class {shown(label.names[label.default])} is the default of {spec.name!r}, which rows"
            " without a label get\nkeep it, or rename it",
            tensor=spec.name,
        )
    counts = count_rows_of_classes(reader, spec, codes).tolist()
    used = [
        f"{shown(label.names[code], in_list=True)} in {plural(rows, 'row')}"
        for code, rows in zip(codes, counts, strict=True)
        if rows
    ]
    if used:
        listed = ", ".join(used[:SHOWN_CLASSES]) + (", …" if len(used) > SHOWN_CLASSES else "")
        first = next(label.names[code] for code, n in zip(codes, counts, strict=True) if n)
        rows = f"ds[{spec.name!r}][ds[{spec.name!r}] == {shown(first, in_list=True)}]"
        raise SchemaError(
            f"classes of {spec.name!r} are in use and cannot be dropped: {listed}\n"
            f"assign another first: {rows} = …",
            tensor=spec.name,
            actual={label.names[code]: n for code, n in zip(codes, counts, strict=True)},
        )


def _class_label(spec: TensorSpec, call: str) -> tuple[TensorSpec, ClassLabel]:
    if not isinstance(spec.type, ClassLabel):
        raise SchemaError(
            f"{spec.name!r} is {spec.type.describe()} and has no class names"
            f" ({call} needs a ClassLabel)\ndeclare it as tl.ClassLabel([…])",
            tensor=spec.name,
        )
    return spec, spec.type


def _code(label: ClassLabel, name: str, tensor: str) -> int:
    if not name or name not in label.names:
        raise unknown_class(name, label.names, tensor=tensor)
    return label.names.index(name)


def _listed(names: Sequence[str], call: str) -> list[str]:
    if isinstance(names, str):
        raise InvalidInputError(f"{call}({shown(names)}): give a list of names, [{shown(names)}]")
    listed = names.tolist() if isinstance(names, np.ndarray) else names
    if not isinstance(listed, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(f"{call} takes a list of names, got {shown(names)}")
    return list(listed)

"""Staging changes of the schema: tensors added, dropped, renamed; class names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tensorlake.dataset.session import Session
from tensorlake.errors import SchemaError, UnsupportedFeatureError
from tensorlake.format import TensorSpec
from tensorlake.types import NO_DEFAULT, ClassLabel, as_type

__all__ = ["add_tensor", "alter_tensor", "change_names", "drop_tensor", "rename_tensor"]


def add_tensor(session: Session, name: str, sample_type: Any, fill: Any) -> None:
    """Stage a new tensor, every row of which has the fill."""
    declared = as_type(sample_type)
    if fill is NO_DEFAULT:
        fill = declared.fill_value
    elif fill is None:
        declared = replace(declared, nullable=True)
    else:
        declared.convert([fill], tensor=name, call="add_tensor(fill=)")
        fill = declared.json_value(fill)
    with session.lock:
        transaction = session.staging()
        transaction.add_tensor(replace(TensorSpec.new(name, declared), fill=fill))


def drop_tensor(session: Session, name: str) -> None:
    """Stage that a tensor is gone."""
    with session.lock:
        transaction = session.staging()
        transaction.drop_tensor(transaction.schema[name])


def rename_tensor(session: Session, old: str, new: str) -> None:
    """Stage another name for a tensor."""
    with session.lock:
        transaction = session.staging()
        renamed = transaction.schema.rename(old, new)[new]
        transaction.change_spec(renamed, what="rename")
        for spec in transaction.schema.tensors:
            # Boxes of a picture, labels per box: they go with the tensor they speak of.
            cites = [name for name in ("of", "per") if getattr(spec.type, name, None) == old]
            if cites:
                declared = replace(spec.type, **dict.fromkeys(cites, new))
                transaction.change_spec(replace(spec, type=declared), what="type")


def alter_tensor(session: Session, name: str, *, nullable: bool) -> None:
    """Stage that a tensor's samples may be NULL."""
    if not nullable:
        raise UnsupportedFeatureError(
            f"alter_tensor({name!r}, nullable=False) is not supported yet: it must read every row"
        )
    with session.lock:
        transaction = session.staging()
        spec = transaction.schema[name]
        altered = replace(spec, type=replace(spec.type, nullable=True))
        transaction.change_spec(altered, what="type")


def change_names(session: Session, name: str, names: Sequence[str]) -> None:
    """Stage class names, by code: names may be added or renamed, not taken away."""
    with session.lock:
        transaction = session.staging()
        spec = transaction.schema[name]
        label = spec.type
        if not isinstance(label, ClassLabel):
            message = f"{name!r} is {label.describe()} and has no class names"
            raise SchemaError(message, tensor=name)
        if len(names) < len(label.names):
            raise UnsupportedFeatureError(
                f"class names of {name!r} cannot be dropped yet; rename them instead"
            )
        changed = replace(spec, type=replace(label, names=tuple(names)))
        transaction.change_spec(changed, what="names")

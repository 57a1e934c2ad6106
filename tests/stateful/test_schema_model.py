"""Random changes of a schema against plain Python (format.md 32, 33, 44).

The model keeps a column of Python values for each tensor and what its type is; class labels are
kept as names. After every step the handle shows what the model says, by reading and by query; at
the end every version still shows what it showed when it was made, with the types it had.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.errors import SchemaError
from tensorlake.storage import MemoryStore
from tensorlake.types import is_widening
from tests.support.handles import create_on, open_on

DTYPES = ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"]
CLASS_NAMES = [f"c{number}" for number in range(30)]
ROWS_MAX = 12


@dataclass
class Tensor:
    """One column of the model."""

    kind: str  # "scalar", "array" or "label"
    dtype: str
    values: list[Any]
    is_ragged: bool = False
    nullable: bool = False
    names: list[str] = field(default_factory=list)  # by code; "" where dropped

    @property
    def live(self) -> list[str]:
        return [name for name in self.names if name]

    def declared(self) -> tl.SampleType:
        if self.kind == "scalar":
            return tl.Scalar(self.dtype, nullable=self.nullable)
        if self.kind == "array":
            shape = (None,) if self.is_ragged else (2,)
            return tl.Array(self.dtype, shape, nullable=self.nullable)
        return tl.ClassLabel(self.names, nullable=self.nullable)


class SchemaModel(RuleBasedStateMachine):
    """One handle, its model, and every version that was published."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.tensors = {
            "n": Tensor("scalar", "int8", []),
            "a": Tensor("array", "uint8", []),
            "label": Tensor("label", "int64", [], names=["c0", "c1"]),
        }
        declared = {name: tensor.declared() for name, tensor in self.tensors.items()}
        self.ds = create_on(self.store, declared)
        self.base = copy.deepcopy(self.tensors)
        self.versions = {"main@0": copy.deepcopy(self.tensors)}

    @property
    def count(self) -> int:
        return len(next(iter(self.tensors.values())).values)

    def value(self, data: st.DataObject, tensor: Tensor) -> Any:
        if tensor.nullable and data.draw(st.integers(0, 3)) == 0:
            return None
        if tensor.kind == "label":
            return data.draw(st.sampled_from(tensor.live))
        kind = np.dtype(tensor.dtype)
        number = (
            st.integers(-400, 400).map(lambda n: n / 4)
            if kind.kind == "f"
            else st.integers(max(np.iinfo(kind).min, -(2**40)), min(np.iinfo(kind).max, 2**40))
        )
        if tensor.kind == "scalar":
            return data.draw(number)
        size = {} if tensor.is_ragged else {"min_size": 2}
        return data.draw(st.lists(number, max_size=2 if not tensor.is_ragged else 3, **size))

    def pick(self, data: st.DataObject, *kinds: str) -> str:
        return data.draw(st.sampled_from([n for n, t in self.tensors.items() if t.kind in kinds]))

    def has(self, *kinds: str) -> bool:
        return any(tensor.kind in kinds for tensor in self.tensors.values())

    # Rows

    @rule(data=st.data(), rows=st.integers(1, 4))
    def append(self, data: st.DataObject, rows: int) -> None:
        if self.count + rows > ROWS_MAX or any(
            tensor.kind == "label" and not tensor.live for tensor in self.tensors.values()
        ):
            return
        batch = {
            name: [self.value(data, tensor) for _ in range(rows)]
            for name, tensor in self.tensors.items()
        }
        self.ds.extend({name: typed(self.tensors[name], batch[name]) for name in batch})
        for name, values in batch.items():
            self.tensors[name].values += values

    @rule(data=st.data())
    def assign(self, data: st.DataObject) -> None:
        name = self.pick(data, "scalar", "array", "label")
        tensor = self.tensors[name]
        if self.count == 0 or (tensor.kind == "label" and not tensor.live):
            return
        row = data.draw(st.integers(0, self.count - 1))
        value = self.value(data, tensor)
        self.ds[name][[row]] = typed(tensor, [value])
        tensor.values[row] = value

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.count == 0:
            return
        row = data.draw(st.integers(0, self.count - 1))
        self.ds.delete([row])
        for tensor in self.tensors.values():
            del tensor.values[row]

    # The schema

    @precondition(lambda self: self.has("scalar", "array"))
    @rule(data=st.data(), dtype=st.sampled_from(DTYPES))
    def widen(self, data: st.DataObject, dtype: str) -> None:
        name = self.pick(data, "scalar", "array")
        tensor = self.tensors[name]
        if not is_widening(np.dtype(tensor.dtype), np.dtype(dtype)):
            with pytest.raises(SchemaError):
                self.ds.alter_tensor(name, dtype=dtype)
            return
        self.ds.alter_tensor(name, dtype=dtype)
        tensor.dtype = dtype

    @precondition(lambda self: self.has("array"))
    @rule(data=st.data())
    def open_shape(self, data: st.DataObject) -> None:
        name = self.pick(data, "array")
        self.ds.alter_tensor(name, shape=(None,))
        self.tensors[name].is_ragged = True

    @rule(data=st.data(), nullable=st.booleans())
    def set_nullable(self, data: st.DataObject, nullable: bool) -> None:  # noqa: FBT001 - drawn
        name = self.pick(data, "scalar", "array", "label")
        tensor = self.tensors[name]
        if not nullable and None in tensor.values:
            with pytest.raises(SchemaError, match="NULL in row"):
                self.ds.alter_tensor(name, nullable=False)
            return
        self.ds.alter_tensor(name, nullable=nullable)
        tensor.nullable = nullable

    @precondition(lambda self: self.has("label"))
    @rule(data=st.data(), new=st.sampled_from(CLASS_NAMES))
    def add_class(self, data: st.DataObject, new: str) -> None:
        name = self.pick(data, "label")
        if new not in self.tensors[name].names:
            self.ds[name].add_names([new])
            self.tensors[name].names.append(new)

    @precondition(lambda self: self.has("label"))
    @rule(data=st.data(), new=st.sampled_from(CLASS_NAMES))
    def rename_class(self, data: st.DataObject, new: str) -> None:
        name = self.pick(data, "label")
        tensor = self.tensors[name]
        if not tensor.live or new in tensor.names:
            return
        old = data.draw(st.sampled_from(tensor.live))
        self.ds[name].rename(old, new)
        tensor.names[tensor.names.index(old)] = new
        tensor.values = [new if value == old else value for value in tensor.values]

    @precondition(lambda self: self.has("label"))
    @rule(data=st.data())
    def drop_class(self, data: st.DataObject) -> None:
        name = self.pick(data, "label")
        tensor = self.tensors[name]
        if not tensor.live:
            return
        old = data.draw(st.sampled_from(tensor.live))
        used = tensor.values.count(old)
        if used:
            with pytest.raises(SchemaError, match=f"'{old}' in {used} row"):
                self.ds[name].drop_names([old])
            return
        self.ds[name].drop_names([old])
        tensor.names[tensor.names.index(old)] = ""

    @precondition(lambda self: len(self.tensors) < 5)
    @rule(dtype=st.sampled_from(DTYPES), fill=st.none() | st.integers(0, 100))
    def add_tensor(self, dtype: str, fill: int | None) -> None:
        name = next(n for n in map("t{}".format, range(9)) if n not in self.tensors)
        self.ds.add_tensor(name, tl.Scalar(dtype), fill=fill)
        self.tensors[name] = Tensor("scalar", dtype, [fill] * self.count, nullable=fill is None)

    @precondition(lambda self: len(self.tensors) > 2)
    @rule(data=st.data())
    def drop_tensor(self, data: st.DataObject) -> None:
        name = self.pick(data, "scalar", "array", "label")
        self.ds.drop_tensor(name)
        del self.tensors[name]

    # Versions

    @rule()
    def commit(self) -> None:
        version = self.ds.commit().version
        self.base = copy.deepcopy(self.tensors)
        self.versions[version] = copy.deepcopy(self.tensors)

    @rule()
    def discard(self) -> None:
        self.ds.discard()
        self.tensors = copy.deepcopy(self.base)

    @precondition(lambda self: "label" in self.tensors and self.count < ROWS_MAX)
    @rule(data=st.data())
    def another_writer_adds_classes_and_rows(self, data: st.DataObject) -> None:
        self.commit()
        before = self.tensors["label"]
        new = data.draw(
            st.lists(
                st.sampled_from([n for n in CLASS_NAMES if n not in before.names]),
                min_size=2,
                max_size=2,
                unique=True,
            )
        )
        other = open_on(self.store)
        for writer, names in ((other, new), (self.ds, new[::-1])):
            writer["label"].add_names(names)
            row = {
                name: typed(tensor, [self.value(data, tensor)])
                for name, tensor in self.tensors.items()
                if name != "label"
            }
            writer.extend({**row, "label": [names[0]]})
            for name, values in row.items():
                tensor = self.tensors[name]
                tensor.values += [plain(tensor, value) for value in values]
            before.values.append(names[0])
        before.names += new
        other.commit()
        self.commit()

    # What must hold

    @invariant()
    def the_handle_shows_the_model(self) -> None:
        check(self.ds, self.tensors)

    @precondition(lambda self: self.has("scalar") and self.count)
    @rule(data=st.data(), border=st.integers(-200, 200))
    def query_numbers(self, data: st.DataObject, border: int) -> None:
        name = self.pick(data, "scalar")
        values = self.tensors[name].values
        expected = [row for row, one in enumerate(values) if one is not None and one > border]
        assert self.ds.query(f"WHERE {name} > {border}").rows.tolist() == expected

    @precondition(lambda self: self.has("label") and self.count)
    @rule(data=st.data())
    def query_labels(self, data: st.DataObject) -> None:
        name = self.pick(data, "label")
        tensor = self.tensors[name]
        for label in tensor.live:
            expected = [row for row, one in enumerate(tensor.values) if one == label]
            assert self.ds.query(f"WHERE {name} = '{label}'").rows.tolist() == expected

    def teardown(self) -> None:
        self.ds.discard()
        for version, tensors in self.versions.items():
            check(open_on(self.store, version), tensors)


def typed(tensor: Tensor, values: list[Any]) -> list[Any]:
    """Values as a user gives them: an empty list has a dtype only as an array."""
    if tensor.kind != "array":
        return values
    return [None if one is None else np.array(one, tensor.dtype) for one in values]


def plain(tensor: Tensor, value: Any) -> Any:
    return value.tolist() if tensor.kind == "array" and value is not None else value


def check(ds: Dataset, tensors: dict[str, Tensor]) -> None:
    assert set(ds.schema) == set(tensors)
    for name, tensor in tensors.items():
        known = ds.schema[name]
        assert known.nullable is tensor.nullable
        read = list(ds[name])
        if tensor.kind == "label":
            assert tuple(known.names) == tuple(tensor.names)
            assert [None if one is None else one.name for one in read] == tensor.values
            continue
        assert known.dtype == np.dtype(tensor.dtype)
        assert known.shape == (
            () if tensor.kind == "scalar" else (None,) if tensor.is_ragged else (2,)
        )
        assert [None if one is None else one.tolist() for one in read] == tensor.values
        assert all(one is None or one.dtype == known.dtype for one in read)


SchemaModel.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestSchemaModel = SchemaModel.TestCase


@pytest.mark.soak
def test_the_model_holds_for_long_runs_of_random_steps():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        SchemaModel,
        settings=settings(
            max_examples=200,
            stateful_step_count=50,
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""Wrong values of every parameter of every public call: only errors of the tree come out."""

import datetime as dt
import inspect
import pathlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import TensorlakeError
from tensorlake.loader import Loader

EVERY = 101
"""The default run takes one case of so many; the soak all."""

LONGEST_MESSAGE = 3 * 16_384
"""Characters of a message: a long value is cut, however many names and remedies are beside it."""

NUMBERS = count()


class Unprintable:
    """A value whose repr fails, as that of a half-made object does."""

    def __repr__(self) -> str:
        raise RuntimeError


def deep_list() -> list[Any]:
    """A list in a list, deeper than the interpreter's stack."""
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "-1": lambda: -1,
    "huge": lambda: 10**400,
    "beyond digits": lambda: 10**5000,
    "list beyond digits": lambda: [10**5000],
    "2**64": lambda: 2**64,
    "nan": lambda: float("nan"),
    "1j": lambda: 1j,
    "True": lambda: True,
    "word": lambda: "no such",
    "nul": lambda: "a\0b",
    "surrogate": lambda: "a\ud800",
    "bytes": lambda: b"\xff",
    "[]": list,
    "mixed list": lambda: ["x", 3],
    "nested list": lambda: [[], {}],
    "dict": lambda: {1: 2},
    "dict of None": lambda: {"x": None},
    "array": lambda: np.array([1, 2]),
    "array of objects": lambda: np.array([object()]),
    "array without axes": lambda: np.array(1.5),
    "path": lambda: pathlib.Path("nothing"),
    "function": lambda: len,
    "naive time": lambda: dt.datetime(2020, 1, 1),  # noqa: DTZ001 - what is refused
    "object": object,
    "no repr": Unprintable,
    "list of no repr": lambda: ["x", Unprintable()],
    "dict of no repr": lambda: {"x": Unprintable(), Unprintable(): 1},
    "many letters": lambda: "x" * 100_000,
    "many names": lambda: {f"name {i}" * 20: [i] for i in range(1000)},
    "deep list": deep_list,
    "...": lambda: ...,
    "iterator": lambda: iter([1]),
    "set": lambda: {1},
    "type": lambda: int,
}

VALID: dict[str, Any] = {
    "annotations": "a.json",
    "as_": "v",
    "codec": "jpeg",
    "columns": ["x"],
    "condition": "x > 1",
    "count": 1,
    "data": {"x": [1]},
    "dst": "out",
    "function": len,
    "images": "im",
    "key": "x",
    "name": "x",
    "names": ["c"],
    "new": "y",
    "old": "x",
    "on": "x",
    "row": 0,
    "rows": [0],
    "sample_type": "int64",
    "schema": {"x": "int64"},
    "shares": {"a": 1.0},
    "src": "in",
    "tql": "WHERE x > 1",
    "values": [1],
    "version": "main@1",
}

NOT_CALLED = {
    "Dataset.follow",  # waits
    "Dataset.show",  # starts servers
    "View.show",
    "Dataset.to_duckdb",  # optional libraries
    "View.to_duckdb",
    "Dataset.to_hf",
    "View.to_hf",
    "Loader.benchmark",
}
FIELDS = {
    "x": "int64",
    "label": tl.ClassLabel(["a", "b"]),
    "t": tl.Text(),
    "r": tl.Array("float32", (None,)),
    "st": tl.Struct({"a": "int64"}),
    "img": tl.Image("png", nullable=True),
}


def made() -> tl.Dataset:
    """Make a small dataset with a commit."""
    ds = tl.create(f"memory://fuzz-{next(NUMBERS)}", FIELDS)
    rows = [
        {"x": i, "label": i % 2, "t": f"t{i}", "r": [1.0] * i, "st": {"a": i}, "img": None}
        for i in range(4)
    ]
    ds.extend(rows)
    ds.commit("four")
    return ds


HOLDERS: dict[str, Callable[[], Any]] = {
    "Dataset": made,
    "View": lambda: made().where("x > 0"),
    "Tensor": lambda: made()["label"],
    "Row": lambda: made()[0],
    "Group": lambda: made()["st"],
    "Mix": lambda: tl.mix({"a": (made(), 1.0)}),
    "Loader": lambda: made().loader(batch_size=2, columns=["x"]),
}
KINDS = {name: getattr(tl, name, Loader) for name in HOLDERS}
OPERATORS = ("__getitem__", "__setitem__", "__contains__", "__getitems__", "__eq__", "__lt__")


@dataclass(frozen=True)
class Case:
    """A call, the parameter that gets an odd value, and the value's name."""

    call: str
    parameter: str
    odd: str

    def __str__(self) -> str:
        return f"{self.call}({self.parameter}={self.odd})"


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public call, with what is called."""
    for name in [*tl.__all__, "open", "list"]:
        one = getattr(tl, name)
        is_made = not inspect.isclass(one) or issubclass(one, tl.types.SampleType | tl.File)
        if callable(one) and is_made:
            yield f"tl.{name}", one
    for name in tl.ingest.__all__:
        if name.islower():
            yield f"ingest.{name}", getattr(tl.ingest, name)
    for name in (*tl.decode.spec.STEPS, "imagenet"):
        yield f"decode.{name}", getattr(tl.decode, name)
    yield "collate.Pad", tl.collate.Pad
    for name, kind in KINDS.items():
        for method in dir(kind):
            static = inspect.getattr_static(kind, method)
            if inspect.isroutine(static) and (method[0] != "_" or method in OPERATORS):
                yield f"{name}.{method}", getattr(kind, method)


CALLS = {name: call for name, call in calls() if name not in NOT_CALLED}


OF_THE_USER = {
    (name, odd) for name in ("condition", "function", "step") for odd in ("function", "type")
}
"""Functions of the user's, whose own errors come through."""


def parameters_of(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Parameters that a user gives."""
    try:
        signature = inspect.signature(call)
    except ValueError:  # of a builtin: object.__eq__
        return []
    return [one for one in signature.parameters.values() if one.name not in {"self", "cls"}]


CASES = [
    Case(name, parameter.name, odd)
    for name, call in CALLS.items()
    for parameter in parameters_of(call)
    for odd in ODD
    if (parameter.name, odd) not in OF_THE_USER
]


def arguments_of(case: Case) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call: one odd, those it needs valid."""
    args: list[Any] = []
    words: dict[str, Any] = {}
    for one in parameters_of(CALLS[case.call]):
        is_odd = one.name == case.parameter
        if not is_odd and (
            one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ):
            continue
        value = ODD[case.odd]() if is_odd else VALID.get(one.name, f"memory://fuzz-{next(NUMBERS)}")
        if one.kind is one.VAR_KEYWORD:
            words["odd"] = value
        elif one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            args.append(value)
        else:
            words[one.name] = value
    return args, words


def attempt(case: Case) -> None:
    """Make the call, and read a little of what it gives; errors of the tree are fine."""
    args, words = arguments_of(case)
    holder, _, method = case.call.partition(".")
    call = getattr(HOLDERS[holder](), method) if holder in HOLDERS else CALLS[case.call]
    try:
        given = call(*args, **words)
        if isinstance(given, tl.View | tl.Tensor):
            len(given)
            repr(given)
        elif isinstance(given, Loader):
            next(iter(given), None)
    except TensorlakeError as error:
        if len(str(error)) > LONGEST_MESSAGE:
            raise AssertionError(f"{len(str(error))} characters: {error!s:.200}") from None


def outcome(case: Case) -> str | None:
    """Return how a case fails; None where only errors of the tree came out."""
    with warnings.catch_warnings(action="ignore"):
        try:
            attempt(case)
        except Exception as error:  # noqa: BLE001 - which ones come is the question
            frames = traceback.extract_tb(
                (error.__cause__ or error.__context__ or error).__traceback__
            )
            ours = [one for one in frames if "tests" not in one.filename] or frames
            where = f"{ours[-1].filename}:{ours[-1].lineno}"
            return f"{case}: {type(error).__name__}: {error!s:.100} @ {where}"
    return None


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_cases_are_of_every_call():
    assert {one.call for one in CASES} > {"tl.create", "Dataset.torch", "Tensor.bytes", "tl.Image"}
    assert len(CASES) > 8000


@pytest.mark.slow
def test_odd_values_raise_only_errors_of_the_tree():
    failures = [failed for case in CASES[::EVERY] if (failed := outcome(case))]

    assert failures == []


@pytest.mark.soak
def test_every_odd_value_raises_only_errors_of_the_tree():
    failures = [failed for case in CASES if (failed := outcome(case))]

    assert failures == []

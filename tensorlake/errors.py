"""The error tree: every failure tensorlake reports, grouped by what a caller would do about it.

    TensorlakeError
    ├── NotFoundError (LookupError)        look elsewhere
    │   ├── DatasetNotFoundError (FileNotFoundError) · VersionNotFoundError
    │   ├── TensorNotFoundError (KeyError) · RowNotFoundError (IndexError)
    │   └── ViewNotFoundError (KeyError) · IndexNotFoundError (KeyError)
    ├── InvalidInputError (ValueError)     change the input
    │   ├── DTypeMismatchError (TypeError) · ShapeMismatchError · UnknownClassError
    │   └── MissingTensorError (KeyError) · SchemaError · RaggedBatchError · ConstraintError
    ├── InvalidStateError (RuntimeError)   change the order of calls
    │   └── StaleViewError · StateMismatchError · UncommittedChangesError · ReadOnlyError
    ├── ConflictError                      refresh, then commit again
    ├── ExpiredError                       open a newer version, or start over
    │   └── TransactionExpiredError · SnapshotExpiredError
    ├── CorruptionError                    restore from a copy; run check
    │   └── CorruptSampleError (ValueError)
    ├── UnsupportedError                   use another store or a newer tensorlake
    │   └── UnsupportedFeatureError (NotImplementedError) · UnsupportedStoreError
    ├── AccessError (PermissionError)      ask for permission
    ├── StorageError (OSError)             try again
    │   └── StorageTimeoutError (TimeoutError) · CommitOutcomeUnknownError
    ├── QueryError (ValueError)            mend the query text
    │   └── QuerySyntaxError · QueryTypeError · QueryNameError · QueryLimitError
    │       · QueryUnsupportedError (UnsupportedFeatureError)
    └── MissingExtraError (ImportError)    install the extra it names

The first line of a message has what, where and with which value; the last has what to do.
Facts are attributes too (``error.expected``); ``code`` is a stable name for HTTP and the viewer.
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeVar

__all__ = [
    "AccessError", "CommitOutcomeUnknownError", "ConflictError", "ConstraintError",
    "CorruptSampleError", "CorruptionError", "DTypeMismatchError", "DamagedBranchWarning",
    "DamagedIndexWarning",
    "DamagedTagWarning", "DatasetNotFoundError", "EmptySideWarning", "ExpiredError",
    "IndependentDrawsWarning",
    "IndexNotFoundError", "InvalidInputError", "InvalidStateError", "MissingExtraError",
    "MissingTensorError", "NewerVersionWarning", "NotFoundError", "NullColumnWarning", "QueryError",
    "QueryLimitError", "QueryNameError", "QuerySyntaxError", "QueryTypeError",
    "QueryUnsupportedError", "QueryWarning", "RaggedBatchError", "ReadOnlyError",
    "ReplayMismatchError", "ReplayWarning", "RowNotFoundError", "RunNotFoundError",
    "RunRecordWarning", "RunsHereWarning", "SchemaError", "ShapeMismatchError", "ShortBatchWarning",
    "SkippedRowsWarning", "SlowFilterWarning", "SnapshotExpiredError", "StaleViewError",
    "StateMismatchError", "StorageError", "StorageTimeoutError", "TensorNotFoundError",
    "TensorlakeError", "TensorlakeWarning", "TransactionExpiredError", "UncommittedChangesError",
    "UncommittedChangesWarning", "UnknownClassError", "UnsupportedError", "UnsupportedFeatureError",
    "UnsupportedStoreError", "UntaggedBaseWarning", "VersionNotFoundError",
    "ViewNotFoundError", "WrongClockWarning",
    "did_you_mean", "missing_extra", "no_such_name", "shown", "shown_as",
]  # fmt: skip

LINE_CHARACTERS = 16_384  # of a message: a few paths, of up to 4,096 bytes each, and words
NAME_CHARACTERS = 260  # between slashes: a part of a path has up to 255
SHOWN_CHARACTERS = 60
AGAIN_CHARACTERS = 20  # of a long name that the message has shown before
SHOWN_NAME_CHARACTERS = 200  # of a string that is the value itself: names and URLs are copied
SHOWN_BITS = 256  # of an integer: its digits fit in a line


def _kebab_case(class_name: str) -> str:
    name = class_name.removesuffix("Error").replace("DType", "Dtype")
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


class TensorlakeError(Exception):
    """Any failure reported by tensorlake.

    Attributes:
        code: Stable name of the kind of error, in kebab-case, as HTTP and the viewer use it.
        facts: The facts in the message, by name; each is an attribute of the error as well.
    """

    __module__ = "tensorlake"  # as users import it, and as tracebacks show it
    code = "tensorlake"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__ == __name__:
            cls.__module__ = "tensorlake"
        if not cls.__name__.startswith("_"):  # a private variant keeps its parent's code
            cls.code = _kebab_case(cls.__name__)

    def __init__(self, message: str, **facts: Any) -> None:
        message = _cut(message)
        Exception.__init__(self, message)  # not super(): a foreign base may require more
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts: dict[str, Any] = self.__dict__.get("facts", {})
        try:
            return facts[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        own = {"message", "facts"}
        noted = {name: value for name, value in vars(self).items() if name not in own} or None
        return (_rebuild, (_HOMES.get(kind, kind), self.message, self.facts), noted)


def _cut(message: str) -> str:
    """Cut what no terminal shows whole: a name of 5,000 letters, a list of 1,000 names."""
    if len(message) <= NAME_CHARACTERS:
        return message
    cores: list[str] = []

    def cut(found: re.Match[str]) -> str:
        name = found[0]
        is_known = any(core in name for core in cores)
        cores.append(name[60:120])
        kept = AGAIN_CHARACTERS if is_known else SHOWN_NAME_CHARACTERS
        return f"{name[:kept]}…{name[-10:]}"  # its end has the quote

    lines = _LONG_NAME.sub(cut, message).split("\n")
    most = LINE_CHARACTERS - 1
    return "\n".join(line if len(line) <= most else f"{line[:most]}…" for line in lines)


_LONG_NAME = re.compile(rf"[^\s/\\]{{{NAME_CHARACTERS + 1},}}")

_HOMES: dict[type[TensorlakeError], tuple[str, str]] = {}
"""The defining module of variants that are shown as a public error."""

Kind = TypeVar("Kind", bound=type[TensorlakeError])


def shown_as(public: type[TensorlakeError]) -> Callable[[Kind], Kind]:
    """Return a decorator for a variant of a public error, which tracebacks show under its name.

    Users see, catch and import ``public``; the variant only has a further base class. It is
    pickled by where it is defined.
    """

    def show(kind: Kind) -> Kind:
        _HOMES[kind] = (kind.__module__, kind.__qualname__)
        kind.__module__, kind.__name__ = public.__module__, public.__name__
        kind.__qualname__, kind.code = public.__qualname__, public.code
        return kind

    return show


def _rebuild(
    home: type[TensorlakeError] | tuple[str, str], message: str, facts: dict[str, Any]
) -> TensorlakeError:
    kind = getattr(import_module(home[0]), home[1]) if isinstance(home, tuple) else home
    return kind(message, **facts)


class NotFoundError(TensorlakeError, LookupError):
    """Something named does not exist."""


class DatasetNotFoundError(NotFoundError, FileNotFoundError):
    """There is no dataset at this URL."""


class VersionNotFoundError(NotFoundError):
    """The dataset has no such branch, tag or commit."""


class TensorNotFoundError(NotFoundError, KeyError):
    """The schema has no such tensor."""


class RowNotFoundError(NotFoundError, IndexError):
    """The version has no such row."""


class RunNotFoundError(NotFoundError, KeyError):
    """There is no record of a run of this name."""


class ViewNotFoundError(NotFoundError, KeyError):
    """No view was saved under this name."""


class IndexNotFoundError(NotFoundError, KeyError):
    """The dataset has no index of this name."""


class InvalidInputError(TensorlakeError, ValueError):
    """A value cannot be accepted; nothing was staged or written."""


class DTypeMismatchError(InvalidInputError, TypeError):
    """A value has a dtype that the tensor cannot take without loss."""


class ShapeMismatchError(InvalidInputError):
    """A value has a shape that the tensor does not allow, or lengths differ."""


class UnknownClassError(InvalidInputError):
    """A class name or code is not among the tensor's class names."""


class MissingTensorError(InvalidInputError, KeyError):
    """Rows were given without a tensor that has no default."""


class SchemaError(InvalidInputError):
    """A schema, or a change of one, is not possible."""


class RaggedBatchError(InvalidInputError):
    """Samples of different shapes cannot be stacked into one batch."""


class ConstraintError(InvalidInputError):
    """Rows would break a constraint of the dataset; nothing was published."""


class InvalidStateError(TensorlakeError, RuntimeError):
    """The call does not fit what came before it."""


class StaleViewError(InvalidStateError):
    """The staged changes that the view was made from are gone."""


class StateMismatchError(InvalidStateError):
    """A loader's state belongs to another selection, seed or order."""


class ReplayMismatchError(InvalidStateError):
    """A batch of a run cannot be made again exactly: what made it differs."""


class UncommittedChangesError(InvalidStateError):
    """The call needs a handle without staged changes."""


class ReadOnlyError(InvalidStateError):
    """The handle cannot write."""


class ConflictError(TensorlakeError):
    """Another commit changed what this transaction changes; the staged changes are kept."""


class ExpiredError(TensorlakeError):
    """A version or transaction expired by the dataset's retention."""


class TransactionExpiredError(ExpiredError):
    """The transaction was open for longer than the dataset's grace time."""


class SnapshotExpiredError(ExpiredError):
    """The version expired, and its data were collected."""


class CorruptionError(TensorlakeError):
    """Stored bytes are damaged or missing."""


class CorruptSampleError(CorruptionError, ValueError):
    """A sample's stored bytes are whole, but cannot be decoded."""


class UnsupportedError(TensorlakeError):
    """This cannot be done here."""


class UnsupportedFeatureError(UnsupportedError, NotImplementedError):
    """The dataset or the call needs a feature that this version does not have."""


class UnsupportedStoreError(UnsupportedError):
    """The store lacks a guarantee that commits rely on."""


class AccessError(TensorlakeError, PermissionError):
    """The store or the server refused access."""


class StorageError(TensorlakeError, OSError):
    """The store failed."""


class StorageTimeoutError(StorageError, TimeoutError):
    """The store did not answer in time."""


class CommitOutcomeUnknownError(StorageError):
    """Whether the commit was published is unknown; committing again is safe."""


class QueryError(TensorlakeError, ValueError):
    """A query cannot be run."""


class QuerySyntaxError(QueryError):
    """The query text is not TQL."""


class QueryTypeError(QueryError):
    """An expression of the query does not fit the types of its parts."""


class QueryNameError(QueryError):
    """The query names a tensor, function or parameter that does not exist."""


class QueryLimitError(QueryError):
    """The query exceeded a limit of time, bytes or depth."""


class QueryUnsupportedError(QueryError, UnsupportedFeatureError):
    """The query has a clause of TQL that this version does not support."""


class MissingExtraError(TensorlakeError, ImportError):
    """An optional dependency is not installed."""


class TensorlakeWarning(UserWarning):
    """Any warning of tensorlake."""

    __module__ = "tensorlake"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__module__ = "tensorlake"


class DamagedBranchWarning(TensorlakeWarning):
    """The newest entry of a branch cannot be read; the other branches can."""


class DamagedIndexWarning(TensorlakeWarning):
    """An index cannot be read: what it would have found is found by reading the column."""


class DamagedTagWarning(TensorlakeWarning):
    """A tag or a saved view cannot be read; the others can."""


class UntaggedBaseWarning(TensorlakeWarning):
    """The base of a fork cannot be written, so no tag keeps the forked version there."""


class EmptySideWarning(TensorlakeWarning):
    """A subset of a split got no row: too few rows, or groups, for its fraction."""


class IndependentDrawsWarning(TensorlakeWarning):
    """Tensors of equal shapes are cut at random, each at places of its own."""


class NewerVersionWarning(TensorlakeWarning):
    """A loader continues on the version its state recorded, though the branch has moved on."""


class NullColumnWarning(TensorlakeWarning):
    """Columns contain NULLs, and a loader without ``columns=`` leaves them out."""


class QueryWarning(TensorlakeWarning):
    """A query is valid, but probably not what was intended."""


class ReplayWarning(TensorlakeWarning):
    """A batch of a run was made again without the functions that the run called."""


class RunRecordWarning(TensorlakeWarning):
    """A part of the record of a run is not stored yet: it is put again with the next."""


class RunsHereWarning(TensorlakeWarning):
    """A query of a dataset behind a server runs in this process, and reads columns through it."""


class ShortBatchWarning(TensorlakeWarning):
    """The last global batch has fewer rows than there are ranks, or is the only one and dropped."""


class SkippedRowsWarning(TensorlakeWarning):
    """A function passed to ``map(on_error="skip")`` raised for some rows, which were left out."""


class SlowFilterWarning(TensorlakeWarning):
    """A filter calls a Python function for each row; a condition in TQL does not."""


class UncommittedChangesWarning(TensorlakeWarning):
    """A handle ended with staged changes, which are lost; or a run reads them."""


class WrongClockWarning(TensorlakeWarning):
    """The clock of this machine differs from the store's by more than five minutes."""


class _Shown(reprlib.Repr):
    """A repr of one short line that never fails."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxarray = 6
        self.maxdict, self.maxlevel = 4, 3
        self.maxstring = self.maxother = SHOWN_CHARACTERS

    def repr_str(self, x: str, level: int) -> str:
        longest = SHOWN_NAME_CHARACTERS if level == self.maxlevel else SHOWN_CHARACTERS
        if len(x) <= longest:
            return repr(x)
        return f"{x[: longest - 20]!r}… ({len(x):,} characters)"

    def repr_int(self, x: int, level: int) -> str:
        del level
        return repr(x) if x.bit_length() <= SHOWN_BITS else f"<int of {x.bit_length()} bits>"

    def repr_instance(self, x: object, level: int) -> str:
        del level
        try:
            first, *others = repr(x).splitlines() or [""]
        except Exception:  # noqa: BLE001 - whatever the caller's own class raises, the error at hand matters
            return f"<{type(x).__name__}>"
        if len(first) > SHOWN_CHARACTERS:
            return f"{first[:SHOWN_CHARACTERS]}…"
        return f"{first} …" if others else first


_SHOWN = _Shown()


def shown(value: object, *, in_list: bool = False) -> str:
    """Format a value for a message: its repr, on one line, truncated where it is long.

    One of several, ``in_list``, is truncated at 60 characters instead of 200.
    >>> shown("main@1"), shown(list(range(100)))
    ("'main@1'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _SHOWN.repr1(value, _SHOWN.maxlevel - in_list)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint at the nearest known name; "" where none is near.

    >>> did_you_mean("lable", ["image", "label"])
    "; did you mean 'label'?"
    """
    if not isinstance(name, str) or len(name) > SHOWN_NAME_CHARACTERS:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing_extra(what: str, extra: str) -> MissingExtraError:
    """Build the one error for a missing optional dependency.

    >>> str(missing_extra("reading 'video'", "media"))
    "reading 'video' needs the extra 'media': pip install 'tensorlake-dl[media]'"
    """
    return MissingExtraError(
        f"{what} needs the extra {extra!r}: pip install 'tensorlake-dl[{extra}]'", extra=extra
    )


def no_such_name(
    module: str, name: str, known: Iterable[str], neighbours: Mapping[str, str]
) -> AttributeError:
    """Return the error for a name that one of our modules does not have.

    Args:
        module: As users write it.
        name: The missing name.
        known: The existing names.
        neighbours: Names in other libraries, and our name for each.

    >>> no_such_name("tl.decode", "Resiz", ["Flip", "Resize"], {})
    AttributeError("tl.decode has no 'Resiz'; did you mean 'Resize'?")
    """
    if name in neighbours:
        hint = f"; {neighbours[name]}"
    else:
        hint = "" if name.startswith("_") else did_you_mean(name, known)
    return AttributeError(f"{module} has no {shown(name)}{hint}", name=name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__doc__", "__file__", "__name__"})

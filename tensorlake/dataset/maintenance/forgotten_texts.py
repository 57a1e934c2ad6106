"""Texts of forgotten rows in the records of runs: found there, and replaced by ``***``.

The query of a run's view, a condition of ``loader.advance()`` and the config are JSON beside the
dataset, which may have the very value that a row is forgotten for. Replaced are the values that the
condition compares with, and the values of the rows: of texts, and of numbers with many digits,
which few others have. They are known while ``forget`` runs, and recorded nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.row_identity import is_id_text
from tensorlake.dataset.query.predicate import Predicate
from tensorlake.dataset.query.run import engine_errors
from tensorlake.format import RUNS, decode_name
from tensorlake.reading import Reader
from tensorlake.storage import Store, runtime

__all__ = ["REDACTED", "Texts"]

REDACTED = "***"
SHORT = 3
"""Characters up to which a text is replaced in quotes only, or where it is all there is."""
DIGITS_MIN = 6
"""Digits of a number from which on it is taken for one that identifies a row."""
READS_AT_ONCE = 32


@dataclass
class Texts:
    """Values of rows that texts may have."""

    values: set[str] = field(default_factory=set[str])

    @classmethod
    def of_condition(cls, where: Any) -> Texts:
        """Collect the values that a condition compares with; none of a view or of row ids."""
        import tensorlake_query as tql

        if isinstance(where, Predicate):
            expr = where.expr
        elif isinstance(where, str) and not is_id_text(where):
            with engine_errors(""):
                expr = tql.parse_predicate(where)
        else:
            return cls()
        found = cls()
        for node in tql.ast.walk(expr):
            if isinstance(node, tql.ast.Literal):
                found.add(node.value)
        return found

    def add_values(self, reader: Reader, rows: npt.NDArray[np.int64]) -> None:
        """Add the values of some rows of a version, of its texts and numbers."""
        snapshot = reader.snapshot
        shown = rows[rows >= 0]
        for spec in snapshot.schema if len(shown) else ():
            is_number = spec.type.query_kind == "number" and spec.type.shape == ()
            if not spec.is_supported or not (spec.type.query_kind in ("text", "json") or is_number):
                continue
            column = reader.read(spec.name, snapshot.physical(shown))
            for at in range(len(column)):
                self.add(spec.type.present_one(column, at))

    def add(self, value: Any) -> None:
        """Add a value; of a list or a dict, those in it."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, str):
            self.values |= {value} - {""}
        elif isinstance(value, int) and len(str(abs(value))) >= DIGITS_MIN:
            self.values.add(str(value))
        elif isinstance(value, Mapping):
            self.add(list(cast("Mapping[str, Any]", value).values()))
        elif isinstance(value, list | tuple | np.ndarray):
            for one in cast("list[Any]", value):
                self.add(one)

    def runs_with(self, store: Store) -> dict[str, list[tuple[str, bytes]]]:
        """Return the records with one of the values, without it: paths and bytes by run."""
        found = dict[str, list[tuple[str, bytes]]]()
        for path, data in _records(store) if self.values else ():
            content = json.loads(data)
            redacted = self._redacted(content)
            if redacted != content:
                if "state" in redacted:  # a pass: its rows cannot be found by this query
                    redacted["is_redacted"] = True
                run = decode_name(path.removeprefix(RUNS).partition("/")[0])
                found.setdefault(run, []).append((path, json.dumps(redacted, indent=1).encode()))
        return found

    def redact(self, store: Store, runs: Mapping[str, list[tuple[str, bytes]]]) -> None:
        """Put the records without the values in their places."""
        puts = [partial(store.put, path, data) for run in runs.values() for path, data in run]
        runtime.run(runtime.gather_bounded(puts, limit=READS_AT_ONCE))

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            return {self._without(key): self._redacted(one) for key, one in named.items()}
        if isinstance(value, list):
            return [self._redacted(one) for one in cast("list[Any]", value)]
        if isinstance(value, str):
            return self._without(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return REDACTED if is_number and str(value) in self.values else value

    def _without(self, text: str) -> str:
        for value in self.values:
            for written in {value, value.replace("'", "''")}:  # as TQL quotes it
                if written not in text:
                    continue
                if text == written:
                    return REDACTED
                plain = re.escape(written)
                before, after = (
                    (r"(?<!\w)", r"(?!\w)") if len(written) > SHORT else ("(?<=['\"])",) * 2
                )
                after = after.replace("<", "")
                text = re.sub(f"{before}{plain}{after}", REDACTED, text)
        return text


def _records(store: Store) -> Iterator[tuple[str, bytes]]:
    """Read the objects of runs that have texts."""

    async def listed() -> list[str]:
        await runtime.to_loop()
        return [meta.path async for meta in store.list(RUNS) if meta.path.endswith(".json")]

    paths = runtime.run(listed())
    for start in range(0, len(paths), READS_AT_ONCE):
        some = paths[start : start + READS_AT_ONCE]
        reads = [partial(store.get, path) for path in some]
        data = runtime.run(runtime.gather_bounded(reads, limit=READS_AT_ONCE))
        yield from ((path, one) for path, one in zip(some, data, strict=True) if one)

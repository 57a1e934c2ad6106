"""One row, as a read-only mapping whose values are read and decoded when first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensorlake.dataset.columns import unknown_column
from tensorlake.dataset.struct_values import members_of, nested
from tensorlake.dataset.words import describe_sample, describe_value
from tensorlake.quantities import human_nbytes
from tensorlake.reading import Snapshot
from tensorlake.types import EncodedColumn

if TYPE_CHECKING:
    from tensorlake.reading import Reader

__all__ = ["Row"]


class Row(Mapping[str, Any]):
    """A row of one version.

    ``row["image"]`` decodes the picture the first time; ``dict(row)`` decodes everything. A group
    of tensors is a dict. Computed columns of a query are values already. Pickled, as for a pool of
    processes, it is a dict of its values.
    """

    def __init__(
        self,
        reader: Reader,
        row: int,
        columns: tuple[str, ...],
        computed: Mapping[str, Any] | None = None,
    ) -> None:
        self._reader = reader
        self._columns = columns
        self._computed = computed or {}
        self._physical = reader.snapshot.physical(np.array([row], dtype=np.int64))
        self._values: dict[str, Any] = dict(self._computed)
        self.row = row

    @property
    def snapshot(self) -> Snapshot:
        """The version that the row is of."""
        return self._reader.snapshot

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            if name not in self._columns:
                members = members_of(name, self._columns)
                if not members:
                    raise unknown_column(name, self._columns)
                return nested(name, members, self.__getitem__)
            sample_type = self.snapshot.spec(name).type
            column = self._reader.read(name, self._physical)
            self._values[name] = sample_type.present_one(column, 0)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the values: which version to open, and how, would be read for each.
        return dict, (dict(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        lines = [f"Row {self.row} of {self.snapshot.url!r} {self.snapshot.version}"]
        width = max((len(name) for name in self._columns), default=0)
        lines += [f"  {name:<{width}}  {self._describe(name)}" for name in self._columns]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tensorlake.dataset.notebook import row_html

        head = f"Row {self.row} of {self.snapshot.url!r} {self.snapshot.version}"
        return row_html(head, self._reader, self._physical, self._columns, self._computed)

    def _describe(self, name: str) -> str:
        if name in self._computed:
            return describe_value(self._computed[name])
        sample_type = self.snapshot.spec(name).type
        if not sample_type.is_media or name in self._values:
            return describe_sample(sample_type, self[name])
        stored = self._reader.read(name, self._physical, decode=False)
        if stored.valid is not None and not stored.valid[0]:
            return "NULL"
        assert isinstance(stored, EncodedColumn)  # media are stored encoded
        shape = "" if stored.shapes is None else "×".join(map(str, stored.shapes[0].tolist()))
        codec = (sample_type.media_type_of(stored.samples[0]) or "").rpartition("/")[2]
        what = " ".join(filter(None, (codec, shape)))
        return ", ".join(filter(None, (what, human_nbytes(len(stored.samples[0])), "not decoded")))

"""New items, one row each, that one process stores and another publishes.

The digests of the rows and the addresses of their chunks travel, and no values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.session import Session
from tensorlake.dataset.sync.groups import CellGroups, RowDigests
from tensorlake.dataset.write.staging import extend
from tensorlake.versions import StoredRows

__all__ = ["NewItems", "NewRows"]

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NewItems:
    """New items whose rows are stored.

    Attributes:
        items: The items, in the order of their rows.
        cells: Digests of the cells of each row.
        content: Digests of the content of each row.
        rows: The rows.
    """

    items: Int64Array
    cells: npt.NDArray[np.uint32]
    content: npt.NDArray[np.uint64]
    rows: StoredRows


class NewRows:
    """The staging of new items in the process that stores them.

    Args:
        session: A session of the dataset, with nothing staged.
        tensors: The tensors that the source fills.
        numbers: The ids of the tensors that it fills, or once did, in the order of the ledger.
        content: Those by which an item is recognised under another name.
    """

    def __init__(
        self,
        session: Session,
        *,
        tensors: Sequence[str],
        numbers: Sequence[str],
        content: Sequence[str],
    ) -> None:
        self._session = session
        self._schema = session.staging().schema
        self._groups = CellGroups(self._schema, tensors=tensors, ids=numbers, content=content)
        self._parts: list[tuple[Int64Array, RowDigests]] = []

    def add(self, columns: Mapping[str, Any], items: Int64Array) -> int:
        """Stage a row for each item; return their number."""
        noted = RowDigests(self._groups, self._schema, len(items))
        extend(self._session, columns, note=noted.note)
        self._parts.append((items, noted))
        return len(items)

    def stored(self) -> NewItems:
        """Store the rows staged."""
        none = RowDigests(self._groups, self._schema, 0)
        parts = [(np.empty(0, np.int64), none), *self._parts]
        return NewItems(
            np.concatenate([items for items, _ in parts]),
            np.concatenate([noted.cells for _, noted in parts]),
            np.concatenate([noted.content for _, noted in parts]),
            self._session.staging().store(),
        )

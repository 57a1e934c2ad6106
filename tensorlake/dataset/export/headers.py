"""Headers: members of a source that belong to all its rows, kept with a version for its export.

    column group "headers"    kind Text, content Json: a row for each header that was ingested

COCO's licences, categories and ``info`` belong to no row. They are published in the commit that
adds the rows, and every copy and branch has them; a dataset that is made of a view has not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorlake.types import Json, Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.dataset.core.session import Session
    from tensorlake.reading import Reader

__all__ = ["read_headers", "stage_header"]

GROUP = "headers"
TYPES = {"kind": Text(), "content": Json()}

Header = tuple[str, dict[str, Any]]


def read_headers(view: RowSet, kind: str) -> list[dict[str, Any]]:
    """Return the headers of one kind that a version has, oldest first."""
    found = view.selection.snapshot.group(GROUP)
    headers = [] if found is None else _read(view.session.reader(found))
    return [content for own, content in headers if own == kind]


def stage_header(
    session: Session, kind: str, content: Mapping[str, Any], *, replaces: bool
) -> bool:
    """Stage a header; return False if the version has it.

    Args:
        session: The session of the dataset.
        kind: The format.
        content: JSON.
        replaces: Whether it takes the place of the other headers of its kind.
    """
    reader = session.group(GROUP)
    known: Sequence[Header] = () if reader is None else _read(reader)
    header = (kind, dict(content))
    kept = [one for one in known if one == header or one[0] != kind or not replaces]
    if header not in kept:
        kept.append(header)
    if kept == [*known]:
        return False
    columns = {
        name: one.convert([header[at] for header in kept], tensor=name)
        for at, (name, one) in enumerate(TYPES.items())
    }
    session.stage_group(GROUP, GROUP, columns, types=TYPES)
    return True


def _read(reader: Reader) -> list[Header]:
    rows = np.arange(reader.snapshot.num_rows, dtype=np.int64)
    kinds, contents = (one.present(reader.read(name, rows)) for name, one in TYPES.items())
    return [*zip(kinds, contents, strict=True)]

"""The descriptor, stored twice, so that a lost or damaged ``tensorlake.json`` can be restored.

    tensorlake.json ──── the same bytes ───► descriptor/<id>.json      at creation and copy; by gc,
           ▲                                          │                where a dataset has none yet
           └──────────────── repair ◄─────────────────┘

Log entries do not contain the descriptor's facts: a reconstructed copy would get the id of its
source, and a mirror would become writable. So only these bytes restore it. A deletion removes the
second put before the descriptor: remains of a dataset are never revived.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlake.errors import CorruptionError, UnsupportedFeatureError
from tensorlake.format import DESCRIPTOR, DESCRIPTORS, Descriptor, descriptor_path
from tensorlake.storage import Store
from tensorlake.versions.log.put_once import put_surely

__all__ = ["SecondPut", "keep_second", "put_second", "second_puts"]


@dataclass(frozen=True, slots=True)
class SecondPut:
    """An object under ``descriptor/``.

    Attributes:
        path: Its path.
        data: Its bytes.
        error: Why they are not a descriptor with the id in the path; None if they are.
    """

    path: str
    data: bytes
    error: CorruptionError | UnsupportedFeatureError | None


async def put_second(store: Store, descriptor: Descriptor) -> None:
    """Put the second copy of a descriptor, after the first."""
    await put_surely(store, descriptor_path(descriptor.id), descriptor.to_bytes())


async def keep_second(store: Store, dataset_id: str) -> None:
    """Put the second copy of the descriptor if it is missing.

    Raises:
        CorruptionError: It was damaged meanwhile; nothing was put.
    """
    path = descriptor_path(dataset_id)
    if await store.head(path) is not None:
        return
    data = await store.get(DESCRIPTOR)
    if data is not None and Descriptor.from_bytes(data).id == dataset_id:  # else deleted meanwhile
        await put_surely(store, path, data)


async def second_puts(store: Store) -> list[SecondPut]:
    """Read the objects under ``descriptor/``."""
    paths = [meta.path async for meta in store.list(DESCRIPTORS)]
    found: list[SecondPut] = []
    for path in sorted(paths):
        data = await store.get(path)
        if data is None:
            continue
        try:
            descriptor = Descriptor.from_bytes(data, where=path)
        except (CorruptionError, UnsupportedFeatureError) as error:
            found.append(SecondPut(path, data, error))
            continue
        if descriptor_path(descriptor.id) != path:
            message = f"{path!r} is the descriptor of dataset {descriptor.id}; restore it"
            found.append(SecondPut(path, data, CorruptionError(message, object=path)))
        else:
            found.append(SecondPut(path, data, None))
    return found

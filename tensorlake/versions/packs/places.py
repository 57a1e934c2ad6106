"""The stores in which a dataset's packs may be: its own, and those of the bases of a fork.

    own store ── has the pack? ──► read there
        └─ no ─► base, base of the base, … in the order of the entry

All packs of a transaction were published in one store, so where one was found is where the next of
its transaction is looked for first: a transaction of a base costs one failed request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tensorlake.errors import AccessError, TensorlakeError
from tensorlake.format import Base, PackId
from tensorlake.storage import LinkStore, MissingObjectError, Store

__all__ = ["PackPlaces"]

T = TypeVar("T")

TXIDS_KEPT = 1 << 16


class PackPlaces:
    """Finds packs in a dataset's own store and in its bases. Thread-safe."""

    def __init__(self, store: Store, links: LinkStore) -> None:
        self._own = store
        self._links = links
        self._bases: tuple[Base, ...] = ()
        self._stores: dict[str, Store] = {}
        self._found: dict[str, Store] = {}

    @property
    def bases(self) -> tuple[Base, ...]:
        """The bases of all entries that were read."""
        return self._bases

    def add(self, bases: Sequence[Base]) -> None:
        """Also look for packs in the bases of an entry; their stores are opened when needed."""
        known = {base.url for base in self._bases}
        self._bases = (*self._bases, *(base for base in bases if base.url not in known))

    def base_store(self, base: Base) -> Store:
        """Return the store of a base.

        Raises:
            AccessError: Bases are not read here.
        """
        store = self._stores.get(base.url)
        if store is None:
            store = self._stores[base.url] = self._links.dataset(base.url)
        return store

    async def read(self, pack: PackId, read: Callable[[Store], Awaitable[T]]) -> T:
        """Read from the first store that has a pack.

        Raises:
            MissingObjectError: None has it.
            AccessError: A base cannot be read, and no other has it.
        """
        last = self._found.get(pack.txid)
        if last is not None:
            try:
                return await read(last)
            except MissingObjectError:
                pass  # copied in part, or collected
        refusal: AccessError | None = None
        missing: MissingObjectError | None = None
        for base in (None, *self._bases):
            try:
                store = self._own if base is None else self.base_store(base)
                found = await read(store)
            except MissingObjectError as error:
                missing = missing or error
                continue
            except AccessError as error:
                if base is None:
                    raise
                refusal = error  # a bucket that may not be listed answers so for what it lacks
                continue
            except TensorlakeError as error:
                if base is not None:
                    error.add_note(f"it is the base of the fork {self._own.url!r}")
                raise
            if len(self._found) >= TXIDS_KEPT:
                self._found.clear()
            self._found[pack.txid] = store
            return found
        if refusal is not None:
            raise refusal
        assert missing is not None, "the dataset's own store was asked"
        raise missing

    async def nbytes_in_bases(self, pack: PackId) -> tuple[Store, int] | None:
        """Return the base's store that has a pack, and its length; None if none has it."""
        for base in self._bases:
            store = self.base_store(base)
            meta = await store.head(pack.path)
            if meta is not None:
                return store, meta.nbytes
        return None

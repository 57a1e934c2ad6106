"""``copying.json``: the marker of a copy in progress, until its descriptor marks it complete.

    claim put ──► packs ──► logs ──► tags ──► HEADs ──► descriptor ──► claim deleted

A place with a claim and no descriptor is not a dataset: it cannot be opened, repaired or used for a
new one. The same copy run again continues, under the id in the claim. Beside a descriptor a claim
is meaningless: a copy died in its last step, or two ran concurrently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorlake.errors import CorruptionError, DatasetNotFoundError, InvalidInputError
from tensorlake.format import COPYING, is_txid, seal, unseal
from tensorlake.storage import Store
from tensorlake.versions.log.put_once import put_surely

__all__ = ["CopyClaim", "claim", "read_claim", "refuse_unfinished", "unfinished"]

MAX_NBYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class CopyClaim:
    """A copy in progress.

    Attributes:
        id: The copy's future id, in its descriptor.
        source: The id of the dataset that is copied.
        url: URL of the source, as given by the copying process.
        mirror_of: As in the future descriptor.
        only: The single version copied, without its history; None: complete logs.
    """

    id: str
    source: str
    url: str
    mirror_of: str | None = None
    only: str | None = None

    @property
    def call(self) -> str:
        """The call that makes the copy, without its target."""
        how = "" if self.mirror_of is None else ", mirror=True"
        how += "" if self.only is None else f", version={self.only!r}, history=False"
        return f"tl.copy({self.url!r}, …{how})"

    def refuse_other(self, wanted: CopyClaim, store: Store) -> None:
        """Refuse a different copy while this one is in progress.

        Raises:
            InvalidInputError: It is a different copy; the future ids are not compared.
        """
        mine, theirs = ((one.source, one.mirror_of is not None, one.only) for one in (self, wanted))
        if mine != theirs:
            raise InvalidInputError(
                f"at {store.url!r} another copy is under way, or was stopped: {self.call}, and this"
                f" one is {wanted.call}\nfinish that one, copy to another URL, or remove what is"
                f" there: tl.delete({store.url!r}, confirm={store.url!r})",
                dataset=store.url,
            )

    def to_bytes(self) -> bytes:
        """Write the claim."""
        value: dict[str, Any] = {"id": self.id, "source": {"id": self.source, "url": self.url}}
        if self.mirror_of is not None:
            value["mirror_of"] = self.mirror_of
        if self.only is not None:
            value["only"] = self.only
        return seal(value)

    @classmethod
    def from_bytes(cls, data: bytes) -> CopyClaim:
        """Read a claim.

        Raises:
            CorruptionError: It is damaged.
        """
        value = unseal(data, where=COPYING, max_nbytes=MAX_NBYTES)
        id_, source = value.get("id"), value.get("source")
        mirror_of, only = value.get("mirror_of"), value.get("only")
        if (
            not is_txid(id_)
            or not isinstance(source, Mapping)
            or not isinstance(mirror_of, str | None)
            or not isinstance(only, str | None)
        ):
            message = f"{COPYING!r} does not say which copy is under way; copy to another URL"
            raise CorruptionError(message, object=COPYING)
        return cls(str(id_), str(source.get("id")), str(source.get("url")), mirror_of, only)


async def read_claim(store: Store) -> CopyClaim | None:
    """Read the claim of a copy in progress; None if there is none."""
    data = await store.get(COPYING)
    return None if data is None else CopyClaim.from_bytes(data)


async def claim(store: Store, wanted: CopyClaim) -> CopyClaim | None:
    """Claim a place for a copy; return the valid claim, which may be an earlier run's.

    Returns:
        None if another process finished the copy and deleted its claim.

    Raises:
        InvalidInputError: Another copy is under way there.
    """
    if await put_surely(store, COPYING, wanted.to_bytes()):
        return wanted
    stored = await read_claim(store)
    if stored is not None:
        stored.refuse_other(wanted, store)
    return stored


async def unfinished(store: Store) -> str | None:
    """Return the message for a place without a descriptor; None if no copy is in progress."""
    found = await read_claim(store)
    if found is None:
        return None
    return (
        f"at {store.url!r} a copy of {found.url!r} is under way, or was stopped; it is not yet a"
        f" dataset\nwait for it, or finish it: {found.call}, or remove what is there:"
        f" tl.delete({store.url!r}, confirm={store.url!r})"
    )


async def refuse_unfinished(store: Store) -> None:
    """Refuse to work on a place where a copy is in progress.

    Raises:
        DatasetNotFoundError: One is.
    """
    remains = await unfinished(store)
    if remains is not None:
        raise DatasetNotFoundError(remains, dataset=store.url)

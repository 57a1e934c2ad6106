"""Idempotency keys of a server's clients: a key belongs to one request of one client.

Two clients may choose the same name for different work, so a commit has two keys for each request:

    keys = ["job-7", "job-7#<digest>"]       digest: of the client, the branch and the operations

An entry with both is the commit of this request, which is answered again. An entry with the name
alone was made by another request: it is refused, and nothing of it is dropped silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidInputError, InvalidStateError
from tensorlake.versions import check_text

if TYPE_CHECKING:
    from tensorlake.format import Entry

__all__ = ["WorkKey"]


@dataclass(frozen=True, slots=True)
class WorkKey:
    """The name that a client gave its work, and what the work is.

    Attributes:
        name: The client's key.
        digest: Identifies the client and the changes; equal for a repetition only.

    Raises:
        InvalidInputError: The name is empty, or not text.
    """

    name: str
    digest: str

    def __post_init__(self) -> None:
        if not check_text(self.name, what="the key"):
            raise InvalidInputError("the key is empty\nname the piece of work, or give no key")

    @property
    def keys(self) -> tuple[str, str]:
        """The keys of a commit of this work."""
        return self.name, f"{self.name}#{self.digest}"

    def is_of(self, entry: Entry, branch: str) -> bool:
        """Whether an entry has this work.

        Raises:
            InvalidStateError: It has the key of other work.
        """
        name, own = self.keys
        if own in entry.keys:
            return True
        if name not in entry.keys:
            return False
        version = f"{branch}@{entry.seq}"
        raise InvalidStateError(
            f"the key {name!r} is that of {version}, which another client or another request"
            " published: nothing of this one was applied\nsend it under a key of its own",
            key=name,
            version=version,
        )

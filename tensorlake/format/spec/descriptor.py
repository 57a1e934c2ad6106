"""The descriptor ``tensorlake.json``, which makes a folder a dataset.

    {"created":…,"format":"tensorlake","grace":86400,"id":"<32 hex>","version":1,"digest":"…"}

``created`` is microseconds since 1970 by the creator's clock, ``grace`` the seconds that nothing
unpublished outlives (at least 60, never lowered), ``mirror_of`` the URL that a mirror follows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.format.spec.canonical_json import seal, unseal
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.spec.spec import DESCRIPTOR, FORMAT_NAME, FORMAT_VERSION, is_txid

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_GRACE_S = 24 * 60 * 60
MIN_GRACE_S = 60
_MAX_NBYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The permanent properties of a dataset."""

    id: str  # as a txid: 32 hex digits
    created: int
    grace_s: int = DEFAULT_GRACE_S
    mirror_of: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_bytes(self) -> bytes:
        """Write the descriptor."""
        if self.grace_s < MIN_GRACE_S:
            raise InvalidInputError(
                f"grace is {self.grace_s} s, less than {MIN_GRACE_S} s: a commit could not be"
                " staged and published within it\ngive at least a minute",
                grace_s=self.grace_s,
            )
        value: dict[str, Any] = {
            **self.unknown,
            "format": FORMAT_NAME,
            "version": FORMAT_VERSION,
            "id": self.id,
            "created": self.created,
            "grace": self.grace_s,
        }
        if self.mirror_of is not None:
            value["mirror_of"] = self.mirror_of
        return seal(value)

    @classmethod
    def from_bytes(cls, data: bytes, *, where: str = DESCRIPTOR) -> Self:
        """Read a descriptor.

        Raises:
            CorruptionError: It is damaged, or describes no tensorlake dataset.
            UnsupportedFeatureError: The dataset is of a later version.
        """
        value = unseal(data, where=where, max_nbytes=_MAX_NBYTES)
        version = value.pop("version", None)
        if value.pop("format", None) != FORMAT_NAME or not isinstance(version, int):
            raise damaged(where, "it does not describe a tensorlake dataset")
        if version != FORMAT_VERSION:
            raise UnsupportedFeatureError(
                f"{where} is of format version {version}, this tensorlake reads version"
                f" {FORMAT_VERSION}\ninstall a newer tensorlake",
                object=where,
                feature=f"format version {version}",
            )
        dataset_id, created = value.pop("id", None), value.pop("created", None)
        grace, mirror_of = value.pop("grace", None), value.pop("mirror_of", None)
        del value["digest"]
        if (
            not is_txid(dataset_id)
            or not isinstance(created, int)
            or not isinstance(grace, int)
            or grace < MIN_GRACE_S
            or not isinstance(mirror_of, str | None)
        ):
            raise damaged(where, "it does not describe a tensorlake dataset")
        return cls(str(dataset_id), created, grace, mirror_of, value)


def is_descriptor(data: bytes) -> bool:
    """Return whether an object named ``tensorlake.json`` is a descriptor, maybe a damaged one.

    Exports once wrote a file of types under this name: whole JSON without the format's name.

    >>> is_descriptor(b'{"tensors":{"x":"int64"}}'), is_descriptor(b'{"created":17')
    (False, True)
    """
    try:
        value: object = json.loads(data)
    except ValueError:  # damaged: its dataset is still there
        return True
    return isinstance(value, dict) and cast("dict[str, object]", value).get("format") == FORMAT_NAME

"""Thumbnails drawn last, and which sample each row of a version is.

    (version's digest, tensor, row)  →  the sample's name     rows stay what they are in a version
    (the sample's name, size, window) →  the image            the same in all versions that have it

Both are look-ups in memory, so that a thumbnail that was drawn before is answered on the event
loop. Access to the dataset is checked before.
"""

from __future__ import annotations

from tensorlake.storage import LruCache
from tensorlake_server.bodies.frames import Frame

__all__ = ["Thumbnails"]

KEPT_NAMES = 1 << 15  # some 300 bytes each


class Thumbnails:
    """Images within a budget. Thread-safe.

    >>> from tensorlake_server.bodies.frames import FrameKind
    >>> thumbnails = Thumbnails(1 << 20)
    >>> thumbnails.put("pack 0 4096 chunk 3", 128, Frame(FrameKind.PNG, b"PNG", 640, 480))
    >>> thumbnails.note("9f3c", "image", 3, "pack 0 4096 chunk 3")
    >>> thumbnails.name_of("9f3c", "image", 3)
    'pack 0 4096 chunk 3'
    >>> thumbnails.get("pack 0 4096 chunk 3", 128).width
    640
    """

    def __init__(self, budget_nbytes: int) -> None:
        self._frames = LruCache[tuple[str, int, str], Frame](budget_nbytes)
        self._names: LruCache[tuple[str, str, int], str] = LruCache(KEPT_NAMES)

    def get(self, sample: str, size: int, window: str | None = None) -> Frame | None:
        """Return what was drawn of a sample, through this window."""
        return self._frames.get((sample, size, window or "auto"))

    def put(self, sample: str, size: int, frame: Frame, window: str | None = None) -> None:
        """Keep what was drawn of a sample."""
        self._frames.put((sample, size, window or "auto"), frame, frame.nbytes)

    def name_of(self, digest: str, tensor: str, row: int) -> str | None:
        """Return the name of a row's sample, if it was asked for before."""
        return self._names.get((digest, tensor, row))

    def note(self, digest: str, tensor: str, row: int, sample: str) -> None:
        """Remember the name of a row's sample."""
        self._names.put((digest, tensor, row), sample)

"""The viewer's built files, each as its client takes it: packed when it was built, or as it is.

    index-4f2a.js      index-4f2a.js.br      index-4f2a.js.gz      ← viewer/compress.ts wrote these

Which files there are is read once, when the application is made: a request names one of them or
none, so that no path of a request reaches the disk. The ETag is a hash of the bytes that are sent,
so every replica has the same one and each encoding its own: a range that continues a broken
download (``If-Range``) never joins the halves of two encodings. ``Vary`` tells caches of all this.
"""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake_server.http.caching import not_modified
from tensorlake_server.http.negotiation import IDENTITY, choose_encoding
from tensorlake_server.http.problems import Problem
from tensorlake_server.http.ranges import OpenFile, ranged_response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fastapi import Request, Response

__all__ = ["ViewerFiles"]

SUFFIXES = {"br": ".br", "gzip": ".gz"}  # the smaller first
ETAG_NBYTES = 12
OCTETS = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class _Stored:
    path: Path
    etag: str


class ViewerFiles:
    """The files under one folder, by their paths in it (``assets/index-4f2a.js``)."""

    def __init__(self, folder: Path) -> None:
        paths = {one for one in folder.rglob("*") if one.is_file()}
        packed = {
            one for one in paths if one.suffix in SUFFIXES.values() and one.with_suffix("") in paths
        }
        self._files = {
            one.relative_to(folder).as_posix(): _stored(one) for one in paths if one not in packed
        }

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def answer(self, request: Request, name: str, headers: Mapping[str, str]) -> Response:
        """Answer with a file, whole or a range of it, or with 304.

        Raises:
            Problem: There is no such file.
        """
        stored = self._files.get(name)
        if stored is None:
            raise Problem(404, "not-found", f"the viewer has no file {name!r}")
        encoding = choose_encoding(request.headers.get("accept-encoding", ""), tuple(stored))
        chosen = stored[encoding]
        sent = {**headers, "ETag": chosen.etag, "Vary": "Accept-Encoding"}
        if encoding != IDENTITY:
            sent["Content-Encoding"] = encoding
        media_type = mimetypes.guess_type(name)[0] or OCTETS
        sent["Accept-Ranges"] = "bytes"
        return not_modified(request, sent) or ranged_response(
            request, OpenFile(chosen.path), sent, media_type
        )


def _stored(path: Path) -> dict[str, _Stored]:
    """Find the encodings of a file that are there, the smallest first."""
    ways = {name: path.with_name(path.name + suffix) for name, suffix in SUFFIXES.items()}
    found = {name: one for name, one in ways.items() if one.is_file()} | {IDENTITY: path}
    return {name: _Stored(one, _etag(one)) for name, one in found.items()}


def _etag(path: Path) -> str:
    return f'"{hashlib.blake2b(path.read_bytes(), digest_size=ETAG_NBYTES).hexdigest()}"'

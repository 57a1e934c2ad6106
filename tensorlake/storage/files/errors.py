"""Translate system errors about a folder's objects to store errors with advice."""

from __future__ import annotations

import errno
from typing import Final

from tensorlake.errors import AccessError, InvalidInputError, StorageError, TensorlakeError

__all__ = ["ABSENT", "translate"]

ABSENT: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""Errors of opening a file that mean that the object does not exist."""

ADVICE: Final = {
    errno.ENOENT: "see that its disk is mounted, then try again",
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some space or ask for a larger quota, then try again",
    errno.EIO: "check the disk, then try again",
    errno.ELOOP: "a symbolic link there leads back to itself: remove it",
    errno.ESPIPE: "there is a named pipe or a device in the place of a file: remove it",
    errno.EMFILE: "raise the limit of open files (ulimit -n), then try again",
}


def translate(error: OSError, *, verb: str, path: str, url: str) -> TensorlakeError:
    """Build the error to raise where nothing more specific is known.

    Args:
        error: The system's error.
        verb: The operation that failed: "read", "write", …
        path: The object's path; "" for the folder itself.
        url: The folder.
    """
    what = f"object {path!r} of {url!r}" if path else f"the folder {url!r}"
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return AccessError(
            f"may not {verb} {what} ({reason});\n"
            "ask its owner for permission, or use another folder",
            path=path,
            url=url,
        )
    if error.errno == errno.ENAMETOOLONG:  # only the caller can fix it
        return InvalidInputError(
            f"could not {verb} {what}: a name in it is longer than its file system takes ({reason})"
            "\nuse a shorter one",
            path=path,
            url=url,
        )
    advice = ADVICE.get(error.errno or 0, "try again")
    return StorageError(f"could not {verb} {what} ({reason});\n{advice}", path=path, url=url)

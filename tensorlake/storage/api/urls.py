"""Take storage URLs apart and put them together.

s3://bucket/lake/pets      scheme "s3", rest "bucket/lake/pets"
memory://scratch           scheme "memory", rest "scratch"
/data/pets, data/pets      scheme "file": a path; so is file:///data/pets
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit, urlunsplit

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """Split a URL or path into its scheme, in lower case, and the rest.

    >>> split_url("s3://bucket/lake")
    ('s3', 'bucket/lake')
    >>> split_url("file:///data/pets")
    ('file', '/data/pets')
    """
    text = os.fspath(url)
    match = _SCHEME.fullmatch(text)
    if match is None:
        return "file", os.path.expanduser(text)  # noqa: PTH111 - Path("") is "."
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return scheme, unquote(rest.removeprefix("localhost"))
    return scheme, rest


def join_url(url: str | os.PathLike[str], name: str) -> str:
    """Name something below a URL or path.

    >>> join_url("s3://bucket/lake/", "pets")
    's3://bucket/lake/pets'
    """
    return f"{os.fspath(url).rstrip('/')}/{name.strip('/')}"


def public_url(url: str) -> str:
    """Return a URL without what may be secret in it: user, password, query and fragment.

    >>> public_url("https://ana:pw@host/lake?sig=abc")
    'https://host/lake'
    >>> public_url("photos #1")
    'photos #1'
    """
    if "://" not in url:  # a path, in which these signs mean nothing
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    if not host:  # urlunsplit would write file:///data as file:/data
        return f"{parts.scheme}://{parts.path}".rstrip("/")
    return urlunsplit((parts.scheme, host, parts.path, "", "")).rstrip("/")

"""Split and join storage URLs.

s3://bucket/lake/pets      scheme "s3", rest "bucket/lake/pets"
memory://scratch           scheme "memory", rest "scratch"
/data/pets, data/pets      scheme "file": a path; so is file:///data/pets
"""

from __future__ import annotations

import errno
import os
import re
from urllib.parse import parse_qs, unquote

from tensorlake.errors import InvalidInputError, shown

SHORT_PATH_NBYTES = 128  # every file system has names of this length
_LOST_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")
# also a password that has a slash, as databases take it: what follows the colon is no port
_USER = re.compile(r"[^/?#]*@|[^/?#@:\[]*:(?!\d*(?:[/?#]|$))[^@]*@")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


def place_text(place: object, *, what: str) -> str:
    """Return a user's path or URL as a string.

    Args:
        place: A string or an ``os.PathLike[str]``.
        what: Which argument it is, for the error.

    Raises:
        InvalidInputError: It is of another type, empty, too long, or has invalid characters.

    >>> place_text("data/pets", what="url")
    'data/pets'
    """
    text = os.fspath(place) if isinstance(place, os.PathLike) else place
    if not isinstance(text, str) or not text:
        raise InvalidInputError(
            f"{what} is a path or URL as a string or Path, got {shown(place)}",
            argument=what,
            actual=place,
        )
    if not isinstance(place, str) and _LOST_SLASH.match(text):
        raise InvalidInputError(
            f"{what}={shown(place)}: Path makes one slash of the two in a URL"
            f"\ngive the URL as a string: {text.replace(':/', '://', 1)!r}",
            argument=what,
            actual=place,
        )
    try:
        raw = text.encode() if _SCHEME.match(text) else os.fsencode(text)
    except UnicodeEncodeError as error:
        message = f"{what}={text!r} has {text[error.start]!r}, which no path or URL has"
        raise InvalidInputError(message, argument=what, actual=text) from error
    if b"\0" in raw:
        message = f"{what}={text!r} has a NUL character, which no path or URL has"
        raise InvalidInputError(message, argument=what, actual=text)
    if len(raw) > SHORT_PATH_NBYTES and not _SCHEME.match(text) and _is_too_long(text):
        raise InvalidInputError(
            f"{what}={shown(text)}: a name in it is longer than its file system takes"
            "\nuse a shorter one",
            argument=what,
            actual=text,
        )
    return str.__str__(text)  # NumPy's strings have the buffer protocol, and pass as bytes


def _is_too_long(path: str) -> bool:
    try:
        os.lstat(os.path.expanduser(path))  # noqa: PTH111 - a Path costs more
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


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


def check_parts(url: str) -> None:
    """Check that no part of a bucket's URL after the bucket is empty, ``.`` or ``..``.

    Raises:
        InvalidInputError: One is; no object of a bucket has such a name.

    >>> check_parts("s3://bucket/lake/pets")
    """
    bucket, *parts = url.partition("://")[2].rstrip("/").split("/")
    found = next((one for one in parts if one in ("", ".", "..")), None)
    if found is not None:
        place = public_url(url)
        what = f"the part {found!r}" if found else "an empty part"
        raise InvalidInputError(
            f"the URL {place!r} has {what} after {bucket!r}, which no object in a bucket has"
            "\ngive the path from the bucket on, with single slashes",
            url=place,
        )


def join_url(url: str | os.PathLike[str], name: str) -> str:
    """Append a name to a URL or path.

    >>> join_url("s3://bucket/lake/", "pets")
    's3://bucket/lake/pets'
    """
    return f"{os.fspath(url).rstrip('/')}/{name.strip('/')}"


def public_url(url: str) -> str:
    """Return a URL without its possibly secret parts: user, password, query and fragment.

    >>> public_url("https://ana:pw@host/lake?sig=abc")
    'https://host/lake'
    >>> public_url("postgresql://ana:p/w#1@host/flows")
    'postgresql://host/flows'
    >>> public_url("photos #1")
    'photos #1'
    """
    if "://" not in url:  # a path, where these characters are ordinary
        return url
    scheme, _, rest = url.partition("://")  # by hand: urlsplit refuses some that messages name
    place = re.split("[?#]", _USER.sub("", rest), maxsplit=1)[0]
    return f"{scheme}://{place}".rstrip("/")


def refuse_query(url: str, marks: str = "?#") -> None:
    """Check that a dataset's URL has no query and no fragment, which its store would not have.

    Args:
        url: The URL.
        marks: The characters that begin a part that its scheme lacks: ``?``, ``#`` or both.

    Raises:
        InvalidInputError: It has one.

    >>> refuse_query("https://host/lake/pets#cats", "?")
    """
    found = re.search(f"[{marks}]", url)
    if found is None:
        return
    place, query = public_url(url), url[found.start() + 1 :].partition("#")[0]
    version = parse_qs(query).get("version", [None])[0] if found[0] == "?" else None
    what = "query" if found[0] == "?" else "fragment"
    remedy = "give the URL without it; a version is an argument: tl.open(url, version='main@12')"
    if version is not None:
        remedy = f"a version is an argument: tl.open({place!r}, version={version!r})"
    raise InvalidInputError(
        f"the URL {place!r} was given with a {what} ({found[0]}…), which no dataset there has"
        f"\n{remedy}",
        url=place,
    )

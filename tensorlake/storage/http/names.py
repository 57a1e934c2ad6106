"""Encode names of datasets, tensors, views and refs as one segment of a URL path.

    name    vision/pets    my~data     a/~b       a~/b
    part    vision~pets    my~~data    a~!~~b     a~~~b

``~`` stands for ``/`` and ``~~`` for ``~``; ``~!`` for a ``/`` followed by one of ``/ ~ !``, which
would be ambiguous. ``%2F`` does not work: proxies and frameworks treat it as ``/``.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["name_of_part", "part_of_name"]

_SLASH_READ_ALONG: Final = re.compile(r"/(?=[/~!])")
_ESCAPED: Final = re.compile(r"~[~!]?")


def part_of_name(name: str) -> str:
    """Write a name as one part of a path.

    >>> part_of_name("vision/my~pets"), part_of_name("a/~b")
    ('vision~my~~pets', 'a~!~~b')
    """
    return _SLASH_READ_ALONG.sub("~!", name.replace("~", "~~")).replace("/", "~")


def name_of_part(part: str) -> str:
    """Read a name that is one part of a path.

    >>> name_of_part("vision~my~~pets"), name_of_part("a~!~~b")
    ('vision/my~pets', 'a/~b')
    """
    return _ESCAPED.sub(lambda found: "~" if found[0] == "~~" else "/", part)

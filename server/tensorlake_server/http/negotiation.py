"""The representation that a client prefers: ``Accept``, ``Accept-Encoding`` (RFC 9110, 12.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["IDENTITY", "choose_encoding", "choose_type"]

IDENTITY = "identity"


def choose_encoding(accept: str, offered: Sequence[str]) -> str:
    """Choose among encodings, of which the first is the best, by ``Accept-Encoding``.

    >>> choose_encoding("gzip, deflate, br", ("br", "gzip", "identity"))
    'br'
    >>> choose_encoding("gzip;q=0.5, br;q=0", ("br", "gzip", "identity"))
    'gzip'
    >>> choose_encoding("", ("br", "gzip", "identity"))
    'identity'
    """
    weights = _weights(accept)
    every = weights.get("*", 0.0)
    packed = [one for one in offered if one != IDENTITY]
    best = max(packed, key=lambda one: weights.get(one, every), default=IDENTITY)
    return best if weights.get(best, every) > 0 else IDENTITY


def choose_type(accept: str, offered: Sequence[str]) -> str:
    """Choose among media types by ``Accept``; the first of them where none is named.

    Among equal weights the first named takes precedence: clients write their preference first.

    >>> offered = ("application/json", "application/x-npz")
    >>> choose_type("application/x-npz", offered), choose_type("text/csv, */*", offered)
    ('application/x-npz', 'application/json')
    >>> choose_type("application/x-npz;q=0.1, application/json", offered)
    'application/json'
    """
    weights = _weights(accept)
    named = [one for one in weights if one in offered and weights[one] > 0]
    best = max(named, key=weights.__getitem__, default=offered[0])
    wild = max(weights.get("*/*", 0.0), weights.get("application/*", 0.0))
    return best if weights.get(best, wild) >= wild else offered[0]


def _weights(header: str) -> Mapping[str, float]:
    """Read the names, in order, and their weights; an invalid weight counts as not given."""
    return dict(_weight(part) for part in header.lower().split(","))


def _weight(part: str) -> tuple[str, float]:
    name, *parameters = (one.strip() for one in part.split(";"))
    given = [one[2:] for one in parameters if one.startswith("q=")]
    try:
        return name, float(given[0]) if given else 1.0
    except ValueError:
        return name, 1.0

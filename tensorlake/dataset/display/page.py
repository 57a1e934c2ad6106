"""HTML that is safe to keep in a notebook: escaped, bounded, without scripts or other hosts.

A `Page` takes parts in the order of their worth and leaves out those that would make it larger than
`HTML_NBYTES_MAX`, so the head is always there, and images are included as far as there is room.
Styles are inline, since notebook viewers drop style sheets. Names and values come from untrusted
data, so every string passes `escaped`, and addresses are always ``data:``.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

__all__ = ["HTML_NBYTES_MAX", "Page", "escaped", "picture", "safely", "table"]

HTML_NBYTES_MAX = 200_000
"""design: face.md, Notebook."""

TEXT_CHARACTERS_MAX = 200
"""Limit of one name or value."""

CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top;white-space:nowrap"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
FAINT = "opacity:0.6"


class Page:
    """Parts of HTML, as many as there is room for."""

    def __init__(self, head: str) -> None:
        self._parts = [f"<div style='font-family:monospace'>{head}"]
        self._end = "</div>"
        self._nbytes = len(self._parts[0].encode()) + len(self._end)

    def add(self, part: str) -> bool:
        """Take a part if there is room for it."""
        nbytes = len(part.encode())
        if self._nbytes + nbytes > HTML_NBYTES_MAX:
            return False
        self._parts.append(part)
        self._nbytes += nbytes
        return True

    def __str__(self) -> str:
        return "".join([*self._parts, self._end])


def escaped(text: object, *, limit: int = TEXT_CHARACTERS_MAX) -> str:
    """Write text so that it is only text; a long one is cut.

    >>> escaped("<b>&'")
    '&lt;b&gt;&amp;&#x27;'
    """
    whole = str(text)
    cut = whole if len(whole) <= limit else f"{whole[:limit]}…"
    shown = "".join(
        one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in cut
    )
    return html.escape(shown)


def table(rows: Sequence[Sequence[str]], *, head: Sequence[str] = ()) -> str:
    """Make a table of cells, each HTML already; the head's are text."""
    top = "".join(f"<th style='{CELL}'>{escaped(one)}</th>" for one in head)
    lines = [f"<tr>{top}</tr>"] if head else []
    lines += [
        "<tr>" + "".join(f"<td style='{CELL}'>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    ]
    return f"<table style='border-collapse:collapse'>{''.join(lines)}</table>"


def picture(data: str, *, told: str) -> str:
    """Return an ``<img>`` of a data URI, with an alternative text."""
    return f"<img src='{data}' alt='{escaped(told)}' title='{escaped(told)}' style='margin:2px'>"


def safely(make: Callable[[], str], *, what: str) -> str:
    """Make HTML, or say why there is none: showing a thing must never break a session."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, in the thing's place
        told = f"{what} cannot be shown: {type(error).__name__}: {error}"
        return str(Page(f"<div>{escaped(told, limit=2000)}</div>"))

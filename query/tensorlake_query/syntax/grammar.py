"""The grammar `tql.lark` as a Lark parser: loaded if it was compiled at build time, else built.

    tql.lark                            the grammar
    tql.lark-<version of Lark>-<crc>    the same, compiled (`Lark.save`); <crc>: of the grammar

Building the automaton takes half a second, loading it less than a tenth. A wheel contains
the compiled file, which `query/build_grammar.py` writes. With another version of Lark or an edited
grammar no file has the expected name, and the parser is built in memory. Nothing is written at run
time. Lark is imported at the first call: importing tensorlake does not need it.

This file imports nothing of the package, so that the build can load it by its path.
"""

import os
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark

GRAMMAR = Path(__file__).with_name("tql.lark")
STARTS = ("query", "predicate", "change")


@lru_cache(maxsize=1)
def grammar() -> "Lark":
    """Return the parser, loaded or built at the first call; threads may share it."""
    return loaded(GRAMMAR.parent) or built()


def loaded(folder: Path) -> "Lark | None":
    """Return the parser compiled into a folder; None without one for this Lark and grammar."""
    from lark import Lark

    path = folder / compiled_name()
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return Lark.load(file)


def built() -> "Lark":
    """Build the parser from the grammar."""
    from lark import Lark

    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        start=list(STARTS),
        keep_all_tokens=True,  # the places of nodes follow from them: Lark's own are slow
        maybe_placeholders=True,
    )


def compiled_name() -> str:
    """Return the name of the compiled file of this version of Lark and this grammar."""
    import lark

    return f"{GRAMMAR.name}-{lark.__version__}-{zlib.crc32(GRAMMAR.read_bytes()):08x}"


def save_compiled(folder: Path) -> Path:
    """Write the compiled grammar into a folder, whole or not at all: others may be loading it."""
    path = folder / compiled_name()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            built().save(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path

"""The kind ``text``: what it suits, its options, and how new rows join an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.format import TensorSpec
from tensorlake.indexes.kind import IndexKind, RowRanges, Rows, known_options
from tensorlake.indexes.parts import Built, PartsReader
from tensorlake.indexes.text.analysis import Analysis, languages
from tensorlake.indexes.text.postings import collected, joined, loaded, texts_of
from tensorlake.types import SampleType, Text

__all__ = ["TEXT"]

TOKENIZERS = ("words", "trigram")
DEFAULTS = {"tokenizer": "words", "stem": None, "positions": False}


def _suits(sample_type: SampleType) -> bool:
    return isinstance(sample_type, Text)


def _options(spec: TensorSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    del spec
    options = known_options("text", given, DEFAULTS)
    tokenizer, stem = options["tokenizer"], options["stem"]
    if tokenizer not in TOKENIZERS:
        raise InvalidInputError(
            f"{shown(tokenizer)} is not a tokenizer\nuse one of {', '.join(map(repr, TOKENIZERS))}",
            argument="tokenizer",
            actual=tokenizer,
        )
    if not isinstance(options["positions"], bool):
        raise InvalidInputError(
            f"positions must be True or False, got {shown(options['positions'])}",
            argument="positions",
        )
    if stem is not None and tokenizer != "words":
        raise InvalidInputError(
            f"stem={shown(stem)} is for words, and tokenizer={tokenizer!r} has none"
            "\nleave out one of both",
            argument="stem",
        )
    if stem is not None and stem not in (known := languages()):
        raise InvalidInputError(
            f"there are no stems of {shown(stem)}{did_you_mean(str(stem), known)}"
            f"\nuse one of {', '.join(known)}",
            argument="stem",
            actual=stem,
        )
    return options


def _build(rows: Rows, parameters: Mapping[str, Any]) -> Built:
    analysis = Analysis.of(parameters)
    made = collected(_texts(rows), analysis, has_positions=parameters["positions"])
    return made.built({name: parameters[name] for name in DEFAULTS})


def _merge(parts: PartsReader, rows: Rows, keep: RowRanges) -> Built:
    made = parts.parameters
    analysis = Analysis.of(made)
    kept = loaded(parts, keep)
    new = collected(_texts(rows), analysis, has_positions=made["positions"])
    return joined(kept, new).built({name: made[name] for name in DEFAULTS})


def _texts(rows: Rows) -> Iterator[tuple[npt.NDArray[np.int64], Sequence[str | None]]]:
    for physical, column in rows.batches():
        yield physical, texts_of(column)


TEXT = IndexKind(
    name="text",
    suits=_suits,
    options=_options,
    build=_build,
    merge=_merge,
    wants="texts",
)

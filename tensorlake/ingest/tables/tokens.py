"""Tokenization of text during ingestion, with any tokenizer.

A tokenizer is a callable that takes a list of strings, or has ``encode_batch`` as in the libraries
tokenizers and tiktoken. For each string it returns a sequence of numbers, or an object with one as
``ids``; a mapping of columns (transformers) has them as ``input_ids``.

The tokenizer is part of the provenance of an ingestion: it is identified by its vocabulary, if it
lists one, and by its tokens of the first lines, since nothing else is known of a plain function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tensorlake.errors import InvalidInputError, SchemaError
from tensorlake.types import Array, SampleType, as_type

__all__ = ["Tokenized", "Tokenizer"]

Tokenizer = Any
"""As described above: the classes of other libraries have no common type."""

UINT16_VOCABULARY = 1 << 16

LINES_LOOKED_AT = 16
"""That tell one tokenizer from another: most differ in the first."""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A column of text that becomes a tensor of tokens.

    Attributes:
        tokenizer: The object that the user passed.
        encode: Converts strings to the tokenizer's results.
        text: Name of the column.
        tensor: Name of the tensor.
        type: Its type: integers, one axis of any length.
    """

    tokenizer: Tokenizer
    encode: Callable[[list[str]], Any]
    text: str
    tensor: str
    type: Array

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, *, text: str, tensor: str, schema: Mapping[str, Any] | None
    ) -> Tokenized:
        """Check the tokenizer that a user passed.

        Raises:
            InvalidInputError: The object is not a tokenizer.
            SchemaError: ``schema`` has another type for the tokens than rows of integers.
        """
        encode = getattr(tokenizer, "encode_batch", tokenizer)
        if not callable(encode):
            raise InvalidInputError(
                f"tokenizer= takes a callable, or what has encode_batch; got"
                f" {type(tokenizer).__name__}\ngive lambda texts: [numbers of each text]",
                actual=type(tokenizer).__name__,
            )
        declared = as_type((schema or {}).get(tensor) or _type_for(tokenizer))
        is_integers = isinstance(declared, Array) and declared.dtype.kind in "iu"
        if not is_integers or declared.shape != (None,):
            raise SchemaError(
                f"{tensor!r} is tokens, and cannot be {declared.describe()} of shape"
                f" {declared.shape}\ngive schema={{{tensor!r}: tl.Array('uint16', (None,))}}",
                tensor=tensor,
            )
        return cls(tokenizer, encode, text, tensor, cast("Array", declared))

    def types(self, types: Mapping[str, SampleType], *, keeps_text: bool) -> dict[str, SampleType]:
        """Put the tokens in the text's place, or beside it."""
        if self.text not in types:
            raise InvalidInputError(
                f"there is no {self.text!r} to tokenize; members: {', '.join(types)}"
                "\nname the one that is text: text='…'",
                expected=self.text,
            )
        kept = {name: one for name, one in types.items() if keeps_text or name != self.text}
        return {**kept, self.tensor: self.type}

    def identity(self, lines: Sequence[Any], *, piece: str) -> str:
        """Identify the tokenizer, and the column that it reads.

        Args:
            lines: Strings of the first lines.
            piece: Their location, for errors.
        """
        texts = [one for one in lines[:LINES_LOOKED_AT] if isinstance(one, str)]
        numbers = self.numbers(texts, piece) if texts else []
        digest = hashlib.blake2b(self.text.encode(), digest_size=8)
        for part in (*_vocabulary(self.tokenizer), *(np.asarray(one).tolist() for one in numbers)):
            digest.update(f"\0{part!r}".encode())
        return f"tokenizer-{digest.hexdigest()}"

    def numbers(self, texts: list[str], piece: str) -> list[Sequence[int]]:
        """Tokenize texts.

        Raises:
            InvalidInputError: The tokenizer did not answer for each.
        """
        said = self.encode(texts)
        if isinstance(said, Mapping) or hasattr(said, "input_ids"):
            said = cast("Mapping[str, Any]", said)["input_ids"]
        if not isinstance(said, Iterable):
            raise InvalidInputError(
                f"{piece}: the tokenizer gave {said!r:.60} for {len(texts)} texts"
                "\nit takes a list of texts and returns a list of numbers for each",
                expected=len(texts),
            )
        numbers = [np.asarray(getattr(one, "ids", one)) for one in said]
        wrong = next((one for one in numbers if one.ndim != 1), None)
        if len(numbers) != len(texts) or wrong is not None:
            answer = f"{len(numbers)} answers" if wrong is None else f"{wrong!r:.60} for one"
            raise InvalidInputError(
                f"{piece}: the tokenizer was given {len(texts)} texts and gave {answer}"
                "\nit takes a list of texts and returns a list of numbers for each",
                expected=len(texts),
                actual=len(numbers),
            )
        empty = np.zeros(0, self.type.dtype)  # of no text: [] alone would be floats
        return cast("list[Sequence[int]]", [one if one.size else empty for one in numbers])


def _type_for(tokenizer: Tokenizer) -> Array:
    """Two bytes a token where the vocabulary is known to fit, else four."""
    size = getattr(tokenizer, "get_vocab_size", None) or getattr(tokenizer, "n_vocab", None)
    if size is None and hasattr(tokenizer, "__len__"):  # transformers: added tokens count
        size = len(tokenizer)
    count = size() if callable(size) else size
    fits = isinstance(count, int) and count <= UINT16_VOCABULARY
    return Array("uint16" if fits else "uint32", (None,))


def _vocabulary(tokenizer: Tokenizer) -> Sequence[Any]:
    """List all tokens with their numbers; nothing where a tokenizer has no such list."""
    if hasattr(tokenizer, "get_vocab"):  # tokenizers, transformers
        return sorted(tokenizer.get_vocab().items())
    if hasattr(tokenizer, "token_byte_values"):  # tiktoken
        return [getattr(tokenizer, "name", ""), *tokenizer.token_byte_values()]
    return []

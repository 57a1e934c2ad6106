"""From texts to terms, and from a question to its clauses.

    words      runs of letters, digits and underscores, folded by case, as MATCH of TQL has them
    trigrams   every three characters in a row of the folded text, for languages without spaces
    stem       each word reduced to its stem by Snowball (the extra ``text``)

A question is a list of words, prefixes and phrases: ``red car* "stop sign"``. With trigrams, all
trigrams of a question are its clauses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tensorlake.errors import InvalidInputError, missing_extra

__all__ = ["Analysis", "Clause", "languages"]

Tokenizer = Literal["words", "trigram"]

CLAUSES_MAX = 1024  # of a question: more than any that a person types, and bounded work
_WORD = re.compile(r"\w+")
_CLAUSE = re.compile(r'"(?P<phrase>[^"]*)"|(?P<word>\w+)(?P<star>\*?)')
_GRAM = 3


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a question that a text has or has not.

    Attributes:
        terms: One term, or the terms of a phrase, in order.
        is_prefix: Whether the term only begins a word.
    """

    terms: tuple[str, ...]
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{' '.join(self.terms)}{'*' if self.is_prefix else ''}"


@dataclass(frozen=True)
class Analysis:
    """How texts are cut into terms.

    Attributes:
        tokenizer: "words" or "trigram".
        stem: A language of Snowball, or None.
    """

    tokenizer: Tokenizer = "words"
    stem: str | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Analysis:
        """Read the parameters of an index."""
        return cls(parameters["tokenizer"], parameters["stem"])

    @property
    def is_plain(self) -> bool:
        """Whether terms are words as MATCH and BM25_SIMILARITY of TQL have them."""
        return self.tokenizer == "words" and self.stem is None

    @cached_property
    def terms(self) -> Callable[[str], list[str]]:
        """The function that cuts a text into terms, in order."""
        if self.tokenizer == "trigram":
            return _trigrams
        if self.stem is None:
            return _words
        stemmer = _stemmer(self.stem)
        stems: dict[str, str] = {}

        def stemmed(text: str) -> list[str]:
            words = _words(text)
            for word in words:
                if word not in stems:
                    stems[word] = stemmer(word)
            return [stems[word] for word in words]

        return stemmed

    def clauses(self, question: str) -> list[Clause]:
        """Parse a question; each clause once, in order.

        Raises:
            InvalidInputError: It has no word, or more than 1,024 clauses.
        """
        if self.tokenizer == "trigram":
            found = [Clause((gram,), len(gram) < _GRAM) for gram in _trigrams(question.strip())]
        else:
            found = list(self._parsed(question))
        clauses = list(dict.fromkeys(found))
        if not clauses:
            raise InvalidInputError(
                f"there is no word to search for in {question!r:.80}\n"
                'give words: "red car", a prefix: "car*", or a phrase: \'"stop sign"\'',
                argument="query",
            )
        if len(clauses) > CLAUSES_MAX:
            raise InvalidInputError(
                f"a search takes {CLAUSES_MAX:,} different words, got {len(clauses):,}"
                "\nsearch by a few of them",
                argument="query",
            )
        return clauses

    def _parsed(self, question: str) -> list[Clause]:
        found: list[Clause] = []
        for match in _CLAUSE.finditer(question.casefold()):
            phrase = match["phrase"]
            if phrase is None and match["star"]:
                found.append(Clause((match["word"],), is_prefix=True))
                continue
            terms = self.terms(match["word"] if phrase is None else phrase)
            if terms:
                found.append(Clause(tuple(terms)))
        return found


def languages() -> tuple[str, ...]:
    """Return the languages that words can be stemmed in.

    Raises:
        MissingExtraError: Snowball is not installed.
    """
    return tuple(_snowball().algorithms())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _trigrams(text: str) -> list[str]:
    folded = text.casefold()
    if len(folded) <= _GRAM:
        return [folded] if folded else []
    return [folded[start : start + _GRAM] for start in range(len(folded) - _GRAM + 1)]


def _stemmer(language: str) -> Callable[[str], str]:
    return _snowball().stemmer(language).stemWord


def _snowball() -> Any:  # an untyped library
    try:
        import snowballstemmer
    except ImportError as error:
        raise missing_extra("reducing words to their stems", "text") from error
    return snowballstemmer

"""Looking for text in UTF-8 bytes: `Texts` without making a string of each row.

A literal is looked for in the bytes of many rows at once, by the byte of it that is rarest in a
sample: one by one where that byte hardly occurs, by masks where it does, whose bits are then asked
for the other bytes; by pyarrow where the literal itself is in many rows. Places become rows by a
search among the offsets. Blocks fit a core's cache.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tensorlake_query.values.memory import working
from tensorlake_query.values.source import BoolArray, IntArray
from tensorlake_query.values.texts import ByteArray, Texts, booleans, large_strings

BLOCK_NBYTES = 1 << 18  # of content looked at together: it and its mask stay in a core's cache
SAMPLE_NBYTES = 1 << 12  # of content that tells which byte is rare, and whether a literal is not
FEW = 16  # of a block: where fewer places than one in so many are left, they are looked at alone
VERY_FEW = 64  # where fewer than one in so many are left, words of the mask that are 0 are skipped
RARE = 1 / 2048  # of the content: a byte of less is looked for by `bytes.find`, which is memchr
MOST_LISTED = 512  # of a block: of more places, masks cost less
MANY = 64  # bytes of content for each place of a literal: where it has fewer, pyarrow costs less
MANY_TEXTS = 4096  # from so many on pyarrow is asked, which takes 0.1 s to import
WORD_NBYTES = 8
MASK_NBYTES = 3 * BLOCK_NBYTES
ROW_NBYTES = 32  # of a row that is compared: its place, what is left


def containing(texts: Texts, literal: bytes) -> BoolArray:
    """Tell which texts have a literal in them."""
    found = np.zeros(len(texts), np.bool_)
    if not literal:
        found[:] = True
        return found
    if len(texts) >= MANY_TEXTS and _is_in_many(texts.own, literal):
        return _by_substring(texts, literal)
    size = len(literal)
    order, share = _rarest_first(texts.own, literal)
    first, last = int(texts.offsets[0]), int(texts.offsets[-1]) - size + 1
    is_rare = share < RARE
    few: list[IntArray] = []  # places that are looked up together
    with working(MASK_NBYTES + len(texts)):
        for start in range(first, last, BLOCK_NBYTES):
            stop = min(start + BLOCK_NBYTES, last)
            places = _listed(texts.content, literal, order[0], start, stop) if is_rare else None
            if places is None:
                is_rare = False
                places = _places(texts.content, literal, order, start, stop)
            if is_rare:
                few.append(places)
            else:
                _mark(found, texts.offsets, places, size)
        if few:
            _mark(found, texts.offsets, np.concatenate(few), size)
    return found


def _listed(
    content: ByteArray, literal: bytes, place: int, start: int, stop: int
) -> IntArray | None:
    """Return where a literal begins, by a byte of it that is rare; None where it is not."""
    block = content[start : stop + len(literal) - 1].tobytes()
    byte, places = literal[place : place + 1], list[int]()
    at = block.find(byte, place)
    for _ in range(MOST_LISTED):
        if at < 0 or at - place >= stop - start:
            return np.array(places, np.int64) + start
        if block.startswith(literal, at - place):
            places.append(at - place)
        at = block.find(byte, at + 1)
    return None


def _is_in_many(content: ByteArray, literal: bytes) -> bool:
    head = content[:SAMPLE_NBYTES].tobytes()
    return head.count(literal) * MANY > len(head)


def _by_substring(texts: Texts, literal: bytes) -> BoolArray:
    """Look for a literal that is in many texts by pyarrow, which compares each once."""
    from pyarrow import compute

    match = cast("Any", compute).match_substring  # Any: pyarrow ships no types
    return booleans(match(large_strings(texts), literal.decode()))


def _mark(found: BoolArray, offsets: IntArray, places: IntArray, size: int) -> None:
    """Mark the texts in which some bytes at ascending places lie; of a text, its first counts."""
    if not len(places):
        return
    first, last = np.searchsorted(offsets, places[[0, -1]], "right") - 1
    if last - first >= len(places):
        rows = np.searchsorted(offsets, places, "right") - 1
        found[rows[places + size <= offsets[rows + 1]]] = True
        return
    bounds = offsets[first : last + 2]
    which = np.minimum(np.searchsorted(places, bounds[:-1]), len(places) - 1)
    begins = places[which]
    found[first : last + 1] |= (begins >= bounds[:-1]) & (begins + size <= bounds[1:])


def starting(texts: Texts, literal: bytes) -> BoolArray:
    """Tell which texts begin with a literal."""
    return _at(texts, literal, texts.offsets[:-1], texts.lengths >= len(literal))


def ending(texts: Texts, literal: bytes) -> BoolArray:
    """Tell which texts end with a literal."""
    return _at(texts, literal, texts.offsets[1:] - len(literal), texts.lengths >= len(literal))


def equal_to(texts: Texts, literal: bytes) -> BoolArray:
    """Tell which texts are a literal."""
    return _at(texts, literal, texts.offsets[:-1], texts.lengths == len(literal))


def among(texts: Texts, literals: Sequence[bytes]) -> BoolArray:
    """Tell which texts are one of some literals."""
    found = np.zeros(len(texts), np.bool_)
    for literal in literals:
        found |= equal_to(texts, literal)
    return found


def compared(texts: Texts, other: Texts, op: str) -> BoolArray:
    """Compare texts with others, row by row, in the order of code points."""
    from pyarrow import compute

    functions = {
        "=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater",
        ">=": "greater_equal",
    }  # fmt: skip
    call = compute.call_function
    return booleans(call(functions[op], [large_strings(texts), large_strings(other)]))


def ascii_lowered(texts: Texts) -> Texts:
    """Return texts of ASCII in lower case."""
    own = texts.own
    with working(2 * len(own)):
        is_upper = own - np.uint8(ord("A")) < ord("Z") - ord("A") + 1
        lowered = own + (is_upper.view(np.uint8) << np.uint8(5))
    return Texts(lowered, texts.offsets - texts.offsets[0])


def only_some(
    texts: Texts, candidates: BoolArray, matches: Callable[[str], bool], most: int
) -> BoolArray | None:
    """Test the candidates one by one; None where they are more than `most`."""
    rows = np.flatnonzero(candidates)
    if len(rows) > most:
        return None
    found = np.zeros(len(texts), np.bool_)
    kept = [matches(text) for text in texts.take(rows).tolist()]
    found[rows] = np.array(kept, np.bool_)
    return found


def _at(texts: Texts, literal: bytes, places: IntArray, candidates: BoolArray) -> BoolArray:
    """Tell which candidates have a literal at their place; its last byte tells most apart."""
    found = np.zeros(len(texts), np.bool_)
    with working(len(texts) * ROW_NBYTES):
        rows = np.flatnonzero(candidates)
        starts = places[rows]
        for number in range(len(literal) - 1, -1, -1):
            if not len(rows):
                break
            kept = texts.content[starts + number] == literal[number]
            if not kept.all():
                rows, starts = rows[kept], starts[kept]
        found[rows] = True
    return found


def _rarest_first(content: ByteArray, literal: bytes) -> tuple[list[int], float]:
    """Return the places in a literal by how rare their bytes are in the content.

    Returns:
        The places, that of the rarest byte first, and which share of the content this byte has.
    """
    sample = content[:: max(len(content) // SAMPLE_NBYTES, 1)]
    counts = np.bincount(sample, minlength=256)
    order = sorted(range(len(literal)), key=lambda place: int(counts[literal[place]]))
    return order, float(counts[literal[order[0]]]) / max(len(sample), 1)


def _places(
    content: ByteArray, literal: bytes, order: Sequence[int], start: int, stop: int
) -> IntArray:
    """Return where a literal begins, of the places from `start` up to `stop`."""
    first = order[0]
    mask = content[start + first : stop + first] == literal[first]
    for number, place in enumerate(order[1:], 1):
        count = int(np.count_nonzero(mask))
        if count * FEW < stop - start:
            places = _true_places(mask, count) + start
            for later in order[number:]:
                if not len(places):
                    break
                places = places[content[places + later] == literal[later]]
            return places
        mask &= content[start + place : stop + place] == literal[place]
    return np.flatnonzero(mask) + start


def _true_places(mask: BoolArray, count: int) -> IntArray:
    """Return where a mask is true; where it rarely is, by words of it."""
    whole = len(mask) - len(mask) % WORD_NBYTES
    if count * VERY_FEW > len(mask):
        return np.flatnonzero(mask)
    words = np.flatnonzero(mask[:whole].view(np.uint64) != 0)
    which, byte = np.nonzero(mask[:whole].reshape(-1, WORD_NBYTES)[words])
    return np.concatenate([words[which] * WORD_NBYTES + byte, np.flatnonzero(mask[whole:]) + whole])

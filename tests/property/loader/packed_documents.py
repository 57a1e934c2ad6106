"""Documents of packed rows whose tokens tell where they are from, and what a pass may give."""

from __future__ import annotations

import itertools

import numpy as np

import tensorlake as tl

__all__ = ["FILTERS", "Documents", "Passes", "sequences_of"]

_names = itertools.count()
FILTERS = {"": lambda x: True, "x % 3 != 1": lambda x: x % 3 != 1, "x > 5": lambda x: x > 5}


class Documents:
    """A dataset of documents whose tokens tell them apart; the mask numbers a document's tokens."""

    def __init__(self, length, form):
        self.length, self.form, self.now, self.fresh = length, form, {}, 0
        types = {"tokens": tl.Array("uint16", (None,)), "mask": tl.Array("uint8", (None,))}
        name = f"memory://pack-splices-{next(_names)}"
        self.ds = tl.create(name, {**types, "x": "int64", "kind": "int64"})

    def _fitted(self, length):
        """A piece of eos alone does not tell whose it is: lengthen such documents."""
        is_lone = self.form["eos"] is not None and (length + 1) % self.length == 1
        return length + (is_lone and not self.form["split"])

    def add(self, lengths):
        lengths = [self._fitted(one) for one in lengths]
        ids = range(self.fresh, self.fresh + len(lengths))
        if lengths:
            made = [self._values(x, one) for x, one in zip(ids, lengths, strict=True)]
            columns = {name: [one[name] for one in made] for name in ("tokens", "mask")}
            self.ds.extend({**columns, "x": list(ids), "kind": [x % 4 for x in ids]})
            self.ds.commit("added")
        self.now |= dict(zip(ids, lengths, strict=True))
        self.fresh += len(lengths)

    def delete(self, count):
        gone = sorted(self.now)[:: max(1, len(self.now) // count)][:count] if count else []
        if gone and len(gone) < len(self.now):
            self.ds.delete(self._rows(gone))
            self.ds.commit("deleted")
            self.now = {x: one for x, one in self.now.items() if x not in gone}

    def change(self, lengths):
        changed = dict(zip(sorted(self.now)[1::3], map(self._fitted, lengths), strict=False))
        for x, length in changed.items():
            for name, values in self._values(x, length).items():
                self.ds[name][self._rows([x])[0]] = values
        if changed:
            self.ds.commit("changed")
        self.now |= changed

    def kept(self, where):
        return {x: one for x, one in self.now.items() if FILTERS[where](x)}

    def _rows(self, ids):
        return np.flatnonzero(np.isin(self.ds["x"][:], ids)).tolist()

    @staticmethod
    def _values(x, length):
        numbers = np.arange(1, length + 1, dtype=np.uint8)
        return {"tokens": np.full(length, x + 1, np.uint16), "mask": numbers}


class Passes:
    """What an epoch may give: in each pass every token once, of documents that are there."""

    def __init__(self, documents, where, repeat=1):
        self.length, self.is_cut = documents.length, documents.form["split"]
        self.eos = documents.form["eos"] is not None
        self.left_passes = repeat
        self.later = documents.kept(where)
        self.next()

    def next(self):
        self.left_passes -= 1
        self.view, self.seen, self.last = dict(self.later), {}, None
        self._count()

    @property
    def is_over(self):
        return not self.left and not (self.left_passes and self.later)

    def _whole(self, x):
        return self.view[x] + self.eos

    def _count(self):
        """What is left: tokens of cut documents, or pieces of whole ones."""
        self.left = {}
        for x in self.view:
            if self.is_cut:
                ended = x in self.seen and x != self.last
                tokens = range(0) if ended else range(self.seen.get(x, 0), self._whole(x))
                own = [(x, token) for token in tokens]
            else:
                pieces = range(-(-self._whole(x) // self.length))
                own = [(x, one) for one in pieces if (x, one) not in self.seen]
            self.left |= dict.fromkeys(own)

    def give(self, sequence):
        if not self.left:
            assert self.left_passes
            self.next()
        for of, tokens in sequence:
            x = self.last if of is None else of  # eos of the document under way
            if self.is_cut:
                assert tokens.start == self.seen.get(x, 0)
                for token in tokens:
                    del self.left[x, token]
                self.seen[x], self.last = tokens.stop, x
            else:
                number, inside = divmod(tokens.start, self.length)
                assert inside == 0
                assert tokens.stop == min((number + 1) * self.length, self._whole(x))
                del self.left[x, number]
                self.seen[x, number] = True

    def change(self, documents, where):
        if not self.left and self.left_passes:
            self.next()
        if self.last is not None and self.seen[self.last] == self._whole(self.last):
            self.last = None
        self.view = self.later = documents.kept(where)
        if self.last not in self.view or self.seen[self.last] >= self._whole(self.last):
            self.last = None
        self._count()


def sequences_of(batch, eos):
    """The parts of each sequence: (document, or None of a lone eos; numbers of its tokens)."""
    valid = batch.get("_valid", np.ones(len(batch["tokens"]), np.bool_))
    for at in np.flatnonzero(valid).tolist():
        tokens, mask, segments = (batch[name][at] for name in ("tokens", "mask", "segments"))
        parts = []
        for number in range(int(segments.max(initial=-1)) + 1):
            own = segments == number
            of, count = tokens[own].tolist(), int(own.sum())
            if eos is not None and of == [eos]:
                parts.append((None, range(int(mask[own][0]), int(mask[own][0]) + 1)))
                continue
            first = int(mask[own][0]) - 1
            assert mask[own].tolist()[: of.count(of[0])] == [
                *range(first + 1, first + 1 + of.count(of[0]))
            ]
            parts.append((of[0] - 1, range(first, first + count)))
        yield parts

"""A type of samples in parts for tests: texts of chapters, read by their numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tensorlake.errors import CorruptSampleError
from tensorlake.types import (
    Buffer,
    EncodedColumn,
    Place,
    SampleHandle,
    SampleMap,
    SampleParts,
    SampleType,
    box_of,
    register,
)


class Book(SampleHandle):
    """A handle with a property that its head answers."""

    __slots__ = ()

    @property
    def titles(self) -> list[str]:
        return json.loads(self.head)


@register
@dataclass(frozen=True, slots=True, repr=False)
class Chapters(SampleType):
    """Lists of byte strings, each a part; the head has the first five bytes of each."""

    kind: ClassVar[str] = "test-chapters"
    is_lazy: ClassVar[bool] = True

    @property
    def layout(self):
        return "encoded"

    @property
    def dtype(self):
        return None

    @property
    def shape(self):
        return (None,)

    @property
    def query_kind(self):
        return "media"

    @property
    def is_media(self):
        return True

    @property
    def handle_class(self):
        return Book

    def convert_values(self, samples: Any, place: Place) -> EncodedColumn:
        maps = [self._map([bytes(one) for one in sample]) for sample in samples]
        shapes = np.array([[len(sample)] for sample in samples], np.int64).reshape(-1, 1)
        return EncodedColumn([b"".join(sample) for sample in samples], shapes, None, maps)

    def _map(self, chapters: list[bytes]) -> SampleMap:
        head = json.dumps([one[:5].decode() for one in chapters]).encode()
        return SampleMap(head, np.cumsum([len(one) for one in chapters]))

    def map_of(self, sample: Buffer, *, tensor: str, row: int) -> SampleMap:
        raise CorruptSampleError("chapters have no map of their own", tensor=tensor, row=row)

    def wanted_parts(
        self, sample_map: SampleMap, request: Any, *, tensor: str, row: int
    ) -> np.ndarray:
        box = box_of((sample_map.num_parts,), request, self.refusal(tensor, row))
        return np.arange(box.starts[0], box.stops[0])

    def decode_parts(self, sample: SampleParts, request: Any, *, tensor: str, row: int) -> Any:
        box = box_of((sample.map.num_parts,), request, self.refusal(tensor, row))
        read = [
            bytes(sample.read(*sample.map.span(at))) for at in range(box.starts[0], box.stops[0])
        ]
        made = np.empty(len(read), object)
        made[:] = read
        return made[box.inside]

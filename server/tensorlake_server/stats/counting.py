"""The statistics of one tensor over sampled rows: classes, histograms, NULLs and empty samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlake_query as tql
from tensorlake.types import ClassLabel, SegmentMask, Tags, Text, Timestamp
from tensorlake_server.bodies.columns import column_type
from tensorlake_server.messages.messages import ClassCounts, Histogram, Statistics
from tensorlake_server.stats.class_counts import count_codes, count_words, row_of_values
from tensorlake_server.stats.histogram_queries import Measure, list_measures
from tensorlake_server.stats.histograms import Bars, count_bars, tally_values
from tensorlake_server.stats.row_budget import Stored, affordable_rows, measure_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tensorlake.types import SampleType
    from tensorlake_server.stats.sampled_rows import SampledRows

__all__ = ["CountedTensor", "Measured"]

MAX_ELEMENTS = 4_000_000  # of arrays, in one histogram: 32 MB
MAX_CODES = 40_000_000  # labels, or pixels of masks


@dataclass(frozen=True, slots=True)
class Measured:
    """A histogram, the values that it counts, and its bars."""

    histogram: Histogram
    values: npt.NDArray[Any]
    bars: Bars


@dataclass(frozen=True, slots=True)
class CountedTensor:
    """One tensor of some rows.

    Attributes:
        weight: How many elements a row has, about; 1 where that is known.
    """

    rows: SampledRows
    name: str
    kind: SampleType
    stored: Stored
    weight: int

    @classmethod
    def of(cls, rows: SampledRows, name: str) -> CountedTensor:
        """Ask what is stored of a tensor.

        Raises:
            TensorNotFoundError: There is none of this name.
        """
        kind = column_type(rows.readable, name)
        is_array = kind.dtype is not None and bool(kind.shape)
        weight = rows.mean_size(tql.print_name(name)) if is_array else 1
        return cls(rows, name, kind, measure_stored(rows.readable, name), weight)

    @property
    def column(self) -> str:
        """Its name as TQL."""
        return tql.print_name(self.name)

    @property
    def size(self) -> str | None:
        """How many elements a row has, as TQL; None where a row has one."""
        return f"SIZE({self.column})" if self.weight > 1 else None

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of classes by code; None where values are not codes."""
        if isinstance(self.kind, ClassLabel | SegmentMask):
            return tuple(self.kind.names)
        is_bool = self.kind.drawn_as in {"bool", "array"} and self.kind.query_kind == "bool"
        return ("false", "true") if is_bool else None

    @property
    def has_words(self) -> bool:
        """Whether its values are texts, which are classes where they repeat."""
        return isinstance(self.kind, Text | Tags)

    def statistics(self) -> Statistics:
        """Count everything that is known of the tensor."""
        is_array = self.kind.dtype is not None and bool(self.kind.shape)
        counted = affordable_rows(self.stored, reads_samples=not is_array)
        histograms: list[Histogram] = []
        is_empty: npt.NDArray[np.bool_] | None = None
        for measure in list_measures(self.name, self.kind):
            measured = self.measure(measure, self.affordable(measure))
            histograms.append(measured.histogram)
            if measure.is_size:
                is_zero = measured.values == 0
                is_empty = is_zero if is_empty is None else is_empty | is_zero
        return Statistics(
            tensor=self.name,
            rows=self.stored.rows,
            counted=counted,
            nulls=self._nulls(counted),
            empty=None if is_empty is None else int(np.count_nonzero(is_empty)),
            classes=self.classes(self.affordable(None)),
            histograms=histograms,
        )

    def affordable(self, measure: Measure | None) -> int:
        """How many rows may be looked at for a measure, or for classes (None)."""
        if measure is None:
            most = MAX_CODES // self.weight
            return affordable_rows(self.stored, reads_samples=True, most=most)
        is_heavy = measure.reads == "samples"
        most = MAX_ELEMENTS // self.weight if is_heavy and self.weight > 1 else self.stored.rows
        return affordable_rows(self.stored, reads_samples=is_heavy, most=most)

    def measure(self, measure: Measure, counted: int) -> Measured:
        """Count the values of a measure in bars."""
        heavy = self.size if measure.reads == "samples" else None
        flat = [
            row_of_values(batch)[1]
            for batch in self.rows.batches(measure.expression, counted=counted, heavy=heavy)
            if not isinstance(batch, tql.ObjectBatch)
        ]
        values = np.concatenate(flat) if flat else np.empty(0, dtype=np.int64)
        tally = tally_values(values)
        unit = self.kind.unit if isinstance(self.kind, Timestamp) else None
        bars = count_bars(tally.finite, time_unit=unit)
        histogram = Histogram(
            title=measure.title,
            expression=measure.expression,
            per=measure.per,
            is_whole=values.dtype.kind in "iu" and unit is None,
            is_rising=bars.is_rising,
            counted=counted,
            values=len(values),
            nans=tally.nans,
            infinities=tally.infinities,
            minimum=bars.minimum,
            maximum=bars.maximum,
            mean=None if unit else tally.mean,
            edges=bars.edges,
            bounds=bars.bounds,
            counts=bars.counts,
        )
        return Measured(histogram, values, bars)

    def classes(self, counted: int) -> ClassCounts | None:
        """Count classes; None where the tensor has none."""
        names = self.class_names
        if names is None and not self.has_words:
            return None
        batches: Iterator[tql.Batch] = self.rows.batches(
            self.column, counted=counted, heavy=self.size
        )
        if names is None:
            texts = (batch for batch in batches if isinstance(batch, tql.ObjectBatch))
            return count_words(texts, counted)
        codes = (batch for batch in batches if not isinstance(batch, tql.ObjectBatch))
        return count_codes(codes, names, counted)

    def _nulls(self, counted: int) -> int:
        batches = self.rows.batches(f"{self.column} IS NULL", counted=counted)
        return sum(
            int(np.count_nonzero(batch.values))
            for batch in batches
            if isinstance(batch, tql.UniformBatch)
        )

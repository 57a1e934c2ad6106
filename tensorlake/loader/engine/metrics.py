"""Metrics of loaders, for Prometheus and OpenTelemetry.

    prometheus_client.REGISTRY.register(tl.LoaderMetrics({"train": loader}))
    tl.LoaderMetrics({"train": loader}).observe(opentelemetry.metrics.get_meter("training"))

Nothing is sampled in the background: each scrape, or export, reads the counters of the loaders.
Every series has the labels ``loader``, the name given here, and ``rank``, so that the rank that
waits longest for data is one query away. Names follow the conventions of both: Prometheus' have a
unit and ``_total``; OpenTelemetry's have dots, and the unit apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from tensorlake.errors import InvalidInputError, missing_extra, shown
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.runtime.stats import LoaderStats

__all__ = ["LoaderMetrics"]

STAGES = (
    *("fetch", "plan", "unpack", "gather", "decode", "transform", "collate", "waiting"),
    *("convert", "batch_transform"),
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name, its unit as in UCUM, and how it is read from a loader's counters."""

    name: str
    unit: str
    text: str
    read: Callable[[LoaderStats], float]
    is_level: bool = False
    """Whether it is a current value, which can fall."""

    @property
    def prometheus_name(self) -> str:
        """The name with its unit, without the ``_total`` that the client adds."""
        words = {"s": "_seconds", "By": "_bytes"}
        return f"tensorlake_loader_{self.name}{words.get(self.unit, '')}"


METRICS = (
    Metric("rows", "{row}", "Rows handed out", lambda one: one.rows),
    Metric("batches", "{batch}", "Batches handed out", lambda one: one.batches),
    Metric("skipped", "{row}", "Rows that on_error= left out", lambda one: one.skipped),
    Metric("wait", "s", "Time the training loop waited for data", lambda one: one.wait_s),
    Metric("consumer", "s", "Time of the training loop between batches", lambda one: one.user_s),
    Metric("requests", "{request}", "Requests to the store", lambda one: one.requests),
    Metric("fetched", "By", "Bytes read from the store", lambda one: one.fetched_nbytes),
    Metric("refetched", "By", "Bytes read again", lambda one: one.refetched_nbytes),
    Metric("cache_hits", "{chunk}", "Chunks found in memory", lambda one: one.cache_hits),
    Metric("cache_misses", "{chunk}", "Chunks not in memory", lambda one: one.cache_misses),
    Metric("cached", "By", "Memory of cached chunks", lambda one: one.cache_nbytes, is_level=True),
    Metric("ready", "By", "Memory of batches", lambda one: one.batch_nbytes, is_level=True),
)
LABELS = ("loader", "rank")
STAGE = ("stage", "s", "Busy time of a stage, summed over its threads")


class LoaderMetrics:
    """Counters of loaders, as a collector of ``prometheus_client`` and for OpenTelemetry.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-metrics", {"x": "int64"})
        >>> ds.extend({"x": range(10)})
        >>> _ = ds.commit("ten")
        >>> with ds.loader(batch_size=5, rank=0, world_size=1) as loader:
        ...     metrics = tl.LoaderMetrics({"train": loader})
        ...     batches = list(loader)
        >>> print(metrics.text().partition("# HELP tensorlake_loader_batches")[0], end="")
        # HELP tensorlake_loader_rows_total Rows handed out
        # TYPE tensorlake_loader_rows_total counter
        tensorlake_loader_rows_total{loader="train",rank="0"} 10.0
    """

    def __init__(self, loaders: Mapping[str, Loader]) -> None:
        """Name loaders of this process.

        Args:
            loaders: By the value of the label ``loader``.

        Raises:
            InvalidInputError: They are not loaders by name.
        """
        named = isinstance(loaders, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        if not named or not loaders or not all(map(_is_named, loaders.items())):
            raise InvalidInputError(
                f"expected loaders by name, got {shown(loaders)}"
                "\nwrite tl.LoaderMetrics({'train': loader})",
                actual=loaders,
            )
        self._loaders = dict(loaders)

    def __repr__(self) -> str:
        return f"LoaderMetrics of {', '.join(self._loaders)}"

    def describe(self) -> Iterable[Any]:
        """Return the families of metrics without values, as ``prometheus_client`` asks for."""
        return [family for family, _ in self._families()]

    def collect(self) -> Iterable[Any]:
        """Return the families of metrics with their current values.

        Raises:
            MissingExtraError: ``prometheus_client`` is not installed.
        """
        families = self._families()
        for labels, stats in self._read():
            for family, metric in families:
                if metric is not None:
                    family.add_metric(labels, metric.read(stats))
                    continue
                for stage in STAGES:
                    if seconds := getattr(stats, f"{stage}_s"):
                        family.add_metric([*labels, stage], seconds)
        return [family for family, _ in families]

    def text(self) -> str:
        """Return the metrics in Prometheus' text format, such as for a file of node_exporter.

        Raises:
            MissingExtraError: ``prometheus_client`` is not installed.
        """
        client = _client()
        registry = client.CollectorRegistry()
        registry.register(self)
        return client.generate_latest(registry).decode()

    def observe(self, meter: Any) -> None:
        """Create observable instruments in a meter of OpenTelemetry, which read the counters.

        Args:
            meter: An ``opentelemetry.metrics.Meter``.

        Raises:
            MissingExtraError: ``opentelemetry-api`` is not installed.
        """
        try:
            from opentelemetry.metrics import (  # pyright: ignore[reportMissingImports] - an extra
                Observation,
            )
        except ImportError as error:
            raise missing_extra("LoaderMetrics.observe()", "metrics") from error

        def values(metric: Metric, _options: Any) -> list[Any]:
            return [
                Observation(metric.read(stats), dict(zip(LABELS, labels, strict=True)))
                for labels, stats in self._read()
            ]

        def seconds(_options: Any) -> list[Any]:
            return [
                Observation(busy, dict(zip((*LABELS, "stage"), (*labels, stage), strict=True)))
                for labels, stats in self._read()
                for stage in STAGES
                if (busy := getattr(stats, f"{stage}_s"))
            ]

        for one in METRICS:
            make = (
                meter.create_observable_gauge if one.is_level else meter.create_observable_counter
            )
            named = f"tensorlake.loader.{one.name}"
            make(named, [partial(values, one)], unit=one.unit, description=one.text)
        name, unit, text = STAGE
        make = meter.create_observable_counter
        make(f"tensorlake.loader.{name}", [seconds], unit=unit, description=text)

    def _read(self) -> list[tuple[list[str], LoaderStats]]:
        """Return the labels and the counters of each loader."""
        return [
            ([name, str(loader.sharding.rank)], loader.stats())
            for name, loader in self._loaders.items()
        ]

    def _families(self) -> list[tuple[Any, Metric | None]]:
        """Return the families without values, with what fills them; None: the stages."""
        families = import_module(f"{_client().__name__}.core")
        made: list[tuple[Any, Metric | None]] = []
        for one in METRICS:
            kind = families.GaugeMetricFamily if one.is_level else families.CounterMetricFamily
            made.append((kind(one.prometheus_name, one.text, labels=LABELS), one))
        name = "tensorlake_loader_stage_seconds"
        made.append((families.CounterMetricFamily(name, STAGE[2], labels=(*LABELS, "stage")), None))
        return made


def _is_named(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and bool(item[0]) and isinstance(item[1], Loader)


def _client() -> Any:
    """Return ``prometheus_client``.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        client = import_module("prometheus_client")
    except ImportError as error:
        raise missing_extra("metrics for Prometheus", "metrics") from error
    return client

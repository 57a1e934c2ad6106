"""Metrics of loaders are their counters, under the names and types that scrapers expect."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

import tensorlake as tl
from tensorlake.loader.engine.metrics import METRICS


@pytest.fixture
def loaders():
    ds = tl.create("memory://metrics", {"x": "int64"})
    ds.extend({"x": range(20)})
    ds.commit("twenty")
    with (
        ds.loader(batch_size=5, rank=1, world_size=2) as train,
        ds.loader(batch_size=4, rank=0, world_size=1, transform=dict) as evaluation,
    ):
        for _ in range(2):
            list(train)
        list(evaluation)
        yield {"train": train, "eval": evaluation}
    tl.delete("memory://metrics", confirm="memory://metrics")


def test_prometheus_reads_each_counter_of_each_loader(loaders):
    text = tl.LoaderMetrics(loaders).text()

    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert len(families) == len(METRICS) + 1
    for metric in METRICS:
        family = families[metric.prometheus_name]
        assert family.type == ("gauge" if metric.is_level else "counter")
        found = {(one.labels["loader"], one.labels["rank"]): one.value for one in family.samples}
        assert found == {
            ("train", "1"): metric.read(loaders["train"].stats()),
            ("eval", "0"): metric.read(loaders["eval"].stats()),
        }
    rows = families["tensorlake_loader_rows"].samples
    assert [(one.name, one.value) for one in rows] == [("tensorlake_loader_rows_total", 20.0)] * 2
    stages = families["tensorlake_loader_stage_seconds"].samples
    transformed = [one.labels["loader"] for one in stages if one.labels["stage"] == "transform"]
    assert transformed == ["eval"]


def test_opentelemetry_exports_the_same_values(loaders):
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    reader = pytest.importorskip("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    metrics = tl.LoaderMetrics(loaders)

    metrics.observe(provider.get_meter("training"))

    (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found = {one.name: one for one in scope.metrics}
    assert len(found) == len(METRICS) + 1
    for metric in METRICS:
        points = found[f"tensorlake.loader.{metric.name}"].data.data_points
        assert {
            (one.attributes["loader"], one.attributes["rank"]): one.value for one in points
        } == {
            ("train", "1"): metric.read(loaders["train"].stats()),
            ("eval", "0"): metric.read(loaders["eval"].stats()),
        }
    provider.shutdown()


@pytest.mark.parametrize("given", [None, {}, [], {"train": 3}, {3: None}])
def test_what_is_not_loaders_by_name_is_refused(given):
    with pytest.raises(tl.errors.InvalidInputError, match="expected loaders by name"):
        tl.LoaderMetrics(given)

"""Ledgers that another version of tensorlake wrote: read for exports, and never taken for ours."""

import pytest

import tensorlake as tl
from tensorlake.dataset.sync import ledger
from tensorlake.types import Array, Text


@pytest.fixture
def ingest(tmp_path):
    (tmp_path / "x.csv").write_text("id,v\n1,2\n")
    return lambda: tl.ingest.csv(tmp_path / "x.csv", tmp_path / "d.tl", key="id")


def test_a_ledger_of_other_columns_is_refused_with_a_way_out(ingest, tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        types = dict.fromkeys(("what", "place", "where", "mode", "settings"), Text())
        earlier.setattr(ledger, "_SOURCE_TYPES", types)
        ingest()
    url = str(tmp_path / "d.tl")

    with pytest.raises(tl.UnsupportedFeatureError, match="in the form of another version") as found:
        ingest()
    assert tl.open(url).query("SELECT _source")["_source"][0] == "x.csv/id=1"
    (source,) = ledger.read_sources(tl.open(url).__session__.group(ledger.SOURCES))
    assert (source.tensors, source.classes) == ((), {})

    assert f"tl.delete({url!r}, confirm={url!r}), and the same call" in str(found.value)
    tl.delete(url, confirm=url)
    assert len(ingest()) == 1


def test_a_ledger_of_other_digests_is_refused(ingest, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setitem(ledger._ITEM_TYPES, "cells", Array("uint32", (8,)))
        earlier.setattr(ledger, "CELL_GROUPS", 8)
        earlier.setattr("tensorlake.dataset.sync.digests.CELL_GROUPS", 8)
        earlier.setattr("tensorlake.dataset.sync.groups.CELL_GROUPS", 8)
        earlier.setattr("tensorlake.dataset.sync.rows.CELL_GROUPS", 8)
        ingest()

    with pytest.raises(tl.UnsupportedFeatureError):
        ingest()

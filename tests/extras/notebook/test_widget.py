"""The widget of notebooks: its selection follows the page's, and the page follows it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.display.widget import ranges_of_rows, rows_of_ranges, widget_of
from tensorlake.errors import InvalidInputError, InvalidStateError

pytest.importorskip("anywidget")
pytestmark = pytest.mark.extras


ADDRESS = "http://127.0.0.1:1/samples.tl#token=secret"


@pytest.fixture
def widget(samples):
    return widget_of(samples.__rowset__, ADDRESS, samples.__view__)


def page(version, *rows):
    """What widget.js sets when the page tells its selection."""
    return {"version": version, "rows": list(rows)}


def test_rows_that_the_page_selects_are_ids_and_a_view(samples, widget):
    heard = []
    widget.observe(lambda change: heard.append(change["new"]), "selection")
    widget._page = page(samples.version)
    widget._page = page(samples.version, 2, 4, 9, 10)

    assert widget.selection == [samples.row_ids[row] for row in (2, 3, 9)]
    assert heard == [widget.selection]
    assert widget.selected.rows.tolist() == [2, 3, 9]
    np.testing.assert_array_equal(widget.selected["x"][:], samples["x"][:][[2, 3, 9]])
    assert widget._wanted == {}  # the page is not told what it told


def test_rows_that_python_selects_are_ranges_of_the_version_that_is_shown(samples, widget):
    ids = samples.row_ids
    widget._page = page(samples.version)

    widget.selection = [ids[7], ids[0], ids[8]]

    assert widget._wanted == page(samples.version, 0, 1, 7, 9)
    assert widget.selected.rows.tolist() == [0, 7, 8]
    widget._page = page(samples.version, 0, 1, 7, 9)  # the page agrees
    assert widget.selection == [ids[0], ids[7], ids[8]]
    widget.selection = []
    assert widget._wanted == page(samples.version)


def test_a_selection_made_before_the_page_is_there_is_sent_when_it_comes(samples, widget):
    widget.selection = [samples.row_ids[5]]
    assert widget._wanted == {}

    widget._page = page(samples.version)

    assert widget._wanted == page(samples.version, 5, 6)
    assert widget.selection == [samples.row_ids[5]]


def test_ids_are_the_same_rows_in_another_version(samples, widget):
    kept = samples.row_ids[3]
    samples.delete([0, 1])
    samples.commit("two less")
    widget._page = page(samples.version)

    widget.selection = [kept]

    assert widget._wanted == page(samples.version, 1, 2)


def test_what_is_no_row_is_refused(samples, widget):
    gone = samples.row_ids[0]
    samples.delete([0])
    samples.commit("one less")
    widget._page = page(samples.version)

    with pytest.raises(InvalidInputError, match="a row is a number, or a row id"):
        widget.selection = ["3"]
    with pytest.raises(InvalidInputError, match="has no row"):
        widget.selection = [gone]
    assert widget.selection == []
    for rows in ([3], [4, 2], [0, 41], [-1, 2]):
        with pytest.raises(InvalidStateError, match="the page selected"):
            rows_of_ranges(rows, 40)


@pytest.mark.parametrize("rows", [[], [0], [39], [0, 1, 2], [1, 3, 4, 5, 39]])
def test_ranges_are_rows_again(rows):
    assert rows_of_ranges(ranges_of_rows(np.array(rows, np.int64)), 40).tolist() == rows


def test_each_widget_has_a_key_of_its_own_and_its_script(samples, widget):
    other = widget_of(samples.__rowset__, ADDRESS, samples.__view__)

    assert len(widget.key) == 32
    assert widget.key != other.key
    assert "export default { render }" in widget._esm
    synced = set(widget.get_state())
    assert {"address", "key", "height", "_page", "_wanted"} <= synced
    assert "selection" not in synced


def test_a_dataset_makes_one_with_the_address_of_its_page(samples, monkeypatch):
    """The server is real; the pages are not built here."""
    from tensorlake.dataset.display import viewer

    monkeypatch.setattr(viewer, "check_viewer_is_built", lambda: None)
    try:
        widget = samples.where("total > 1").widget(height=300)
    finally:
        viewer.stop_servers()

    assert widget.height == 300
    assert "/samples.tl?at=main" in widget.address
    assert "#token=" in widget.address
    assert tl.Dataset is type(samples)

"""Sample data: complete, the same at the same call again, and on disk where asked."""

import pytest

import tensorlake as tl


@pytest.mark.parametrize(("name", "rows"), [("digits", 10_000), ("scenes", 19)])
def test_the_same_call_again_adds_nothing_and_keeps_what_was_changed(name, rows, tmp_path):
    url = str(tmp_path / name)
    make = getattr(tl.datasets, name)
    with make(url) as ds:
        assert len(ds) == rows
        fixed = ds.branch("fixed")
        fixed.delete([0])
        fixed.commit("one less")

    with make(url) as again:
        assert again.ingest_report.added == 0
        assert len(again) == rows
        assert len(again.at("fixed")) == rows - 1


def test_another_dataset_at_the_url_is_refused(tmp_path):
    with tl.create(str(tmp_path / "x.tl"), {"x": "int64"}) as ds:
        ds.extend({"x": [1]})
        ds.commit("mine")

    with pytest.raises(tl.TensorlakeError):
        tl.datasets.scenes(tmp_path / "x.tl")


def test_files_of_an_unknown_name_are_refused_with_the_nearest():
    with pytest.raises(tl.InvalidInputError, match="did you mean 'digits'"):
        tl.datasets.files("digit")

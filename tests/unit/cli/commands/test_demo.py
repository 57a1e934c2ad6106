"""demo: on data that the package has, and only over datasets that a demo made."""

import pytest

import tensorlake as tl


@pytest.mark.slow  # it trains a network
def test_it_runs_to_its_end_and_again(tmp_path, run):
    lake = tmp_path / "lake"

    first, again = run("demo", "--lake", str(lake)), run("demo", "--lake", str(lake))

    assert (first.code, again.code) == (0, 0), first.err + again.err
    assert f"tensorlake serve {lake}" in again.out
    assert tl.list(str(lake)) == ["digits", "scenes"]
    assert tl.open(str(lake / "digits")).branches == ["fixed", "main"]


def test_a_folder_of_other_files_is_left_as_it_is(tmp_path, run):
    (tmp_path / "thesis.tex").write_text("text")

    refused = run("demo", "--lake", str(tmp_path))

    assert refused.code == 1
    assert "thesis.tex" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_torch_that_is_missing_is_named_with_its_extra(tmp_path, run, monkeypatch):
    monkeypatch.setattr("tensorlake.cli.commands.demo.find_spec", lambda _: None)

    refused = run("demo", "--lake", str(tmp_path / "lake"))

    assert "tensorlake-dl[torch]" in refused.err
    assert not (tmp_path / "lake").exists()


def test_an_image_codec_that_is_missing_is_named_before_anything_is_written(
    tmp_path, run, monkeypatch
):
    present = {"torch": object()}
    monkeypatch.setattr("tensorlake.cli.commands.demo.find_spec", present.get)

    refused = run("demo", "--lake", str(tmp_path / "lake"))

    assert "tensorlake-dl[media]" in refused.err
    assert not (tmp_path / "lake").exists()


def test_a_lake_that_is_a_file_is_refused(tmp_path, run):
    (tmp_path / "b0.py").write_text("text")

    for lake, reason in (("b0.py", "this is a file"), ("b0.py/x", "the folder cannot be made")):
        refused = run("demo", "--lake", str(tmp_path / lake))
        assert refused.code == 1
        assert reason in refused.err
        assert refused.err.startswith("InvalidInputError [invalid-input]")

"""The config of a run: what sweeps give is taken, secrets are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl


@pytest.fixture
def ds(tmp_path):
    return tl.create(tmp_path / "lake.tl", {"x": "int64"})


def test_secrets_in_urls_are_not_recorded(ds):
    given = {
        "url": "https://user:hunter2@host/x?token=hunter2&a=1",
        "stores": ["s3://u:hunter2@bucket/x"],
        "nested": {"api_key": "hunter2"},
    }

    run = ds.run("c", config=given)

    assert run.config["url"] == "https://***@host/x?token=***&a=1"
    files = [file for file in Path(ds.url).rglob("*") if file.is_file()]
    assert not [file for file in files if b"hunter2" in file.read_bytes()]


def test_numbers_of_numpy_and_paths_are_taken(ds):
    config = {"lr": np.float32(0.5), "steps": np.int64(3), "path": Path("a/b")}

    assert ds.run("c", config=config).config == {"lr": 0.5, "steps": 3, "path": "a/b"}


def test_the_key_of_what_cannot_be_recorded_is_named(ds):
    with pytest.raises(tl.InvalidInputError, match=r"config\['lr'\] cannot be recorded"):
        ds.run("c", config={"a": 1, "lr": float("nan")})


def test_a_refused_config_is_not_quoted(ds):
    class Config:
        def __repr__(self):
            return "password='hunter3'"

    with pytest.raises(tl.InvalidInputError) as raised:
        ds.run("c", config=Config())
    assert "hunter3" not in str(raised.value)


def test_numbers_beyond_floats_and_names_that_break_lines_are_refused(ds):
    with pytest.raises(tl.InvalidInputError, match="too large for a float64"):
        ds.run("a").log(loss=10**400)
    with pytest.raises(tl.InvalidInputError, match="control characters"):
        ds.run("a\n")


@pytest.mark.parametrize("config", [0, False, [], [("lr", 0.1)], "lr", np.arange(2)])
def test_a_config_that_is_no_dict_is_refused(ds, config):
    with pytest.raises(tl.InvalidInputError, match="config is a dict"):
        ds.run("other", config=config)

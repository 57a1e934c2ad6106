"""Formats of an installed package: the how-to page's file, and its entry points."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError

PAGE = Path(__file__).parents[3] / "docs/how-to/add-a-format.md"
BROKEN = "broken = my_lines:nothing\nnumber = my_lines:NUMBER\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    site = tmp_path_factory.mktemp("site")
    page = PAGE.read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    parts = [part.partition('\nPath("numbers.txt")')[0] for part in code]
    parts[1] = parts[1].partition("\nwrite_lines(tl.open")[0]
    program = ["import tensorlake as tl", *parts, "NUMBER = 7\n"]
    (site / "my_lines.py").write_text("\n".join(program))
    points = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    text = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", points[0]).replace('"', "")
    info = site / "my_lines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_lines\nVersion: 1.0\n")
    first, second = text.split("\n\n")
    (info / "entry_points.txt").write_text(f"{first}\n{BROKEN}\n{second}{BROKEN}")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    yield site
    sys.path.remove(str(site))
    sys.modules.pop("my_lines", None)


@pytest.mark.usefixtures("installed")
def test_a_format_of_a_package_goes_in_and_out(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 one\n2 two\n")
    ds = getattr(tl.ingest, "lines")(tmp_path / "x.txt", str(tmp_path / "x.tl"))  # noqa: B009 - a type checker does not know it
    ds.where("number = 2").export("lines", tmp_path / "out.txt")

    assert (tmp_path / "out.txt").read_text() == "2 two\n"
    with pytest.raises(InvalidInputError, match="there already"):
        ds.export("lines", tmp_path / "out.txt")


@pytest.mark.usefixtures("installed")
def test_a_plug_in_that_is_damaged_is_named(tmp_path: Path) -> None:
    ds = tl.create("memory://broken-formats", {"x": "int64"})
    for name, why in (("broken", "cannot be loaded"), ("number", "not a function but 7")):
        with pytest.raises(UnsupportedFeatureError, match=why):
            getattr(tl.ingest, name)
        with pytest.raises(UnsupportedFeatureError, match=why):
            ds.export(name, tmp_path / "out")


def test_a_format_by_its_name_is_the_method(tmp_path: Path) -> None:
    ds = tl.create("memory://named-formats", {"x": "int64"})
    ds.extend({"x": [1, 2]})
    ds.commit("two")
    ds.export("csv", tmp_path / "x.csv", delimiter=";")

    assert (tmp_path / "x.csv").read_text().split() == ['"x"', "1", "2"]
    with pytest.raises(InvalidInputError, match="did you mean 'parquet'"):
        ds.export("parqet", tmp_path / "x")
    with pytest.raises(AttributeError, match="kitti"):
        getattr(tl.ingest, "kiti")  # noqa: B009 - a type checker knows that there is none

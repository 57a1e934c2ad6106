"""A package brings functions of TQL by entry points: a query loads one when it calls it.

The package is written to a folder, as pip would install it: modules and a ``.dist-info``.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

import tensorlake as tl
import tensorlake_query as tql
from tensorlake.dataset.query import udf
from tensorlake_query.functions.plug_ins import plug_in

PAGE = Path(__file__).parents[3] / "docs/how-to/add-a-function.md"
MORE = """
def once(text):
    return text.upper()

loud = user_function("loud", once, dtype="text")
misnamed = loud
not_a_function = once
sin = user_function("sin", lambda x: 7.0, dtype="float64")
"""
ENTRY_POINTS = """[tensorlake.functions]
brightness = lights:brightness
loud = lights:loud
quiet = lights:misnamed
plain = lights:not_a_function
gone = lights.missing:nothing
sin = lights:sin
twice = lights:loud
"""
OTHER = "[tensorlake.functions]\ntwice = lights:brightness\n"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """Two packages; the function of the first is the how-to page's."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (function,) = re.findall(r"def mean_brightness.*?\n\n", blocks[0], re.DOTALL)
    site = tmp_path_factory.mktemp("site")
    (site / "lights.py").write_text(function + blocks[1] + MORE, "utf-8")
    for name, points in (("lights", ENTRY_POINTS), ("others", OTHER)):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata, "utf-8")
        (info / "entry_points.txt").write_text(points, "utf-8")
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    plug_in.cache_clear()
    yield site
    sys.path.remove(str(site))
    sys.modules.pop("lights", None)
    plug_in.cache_clear()


@pytest.fixture(scope="module")
def ds():
    made = tl.create("memory://plug-in", {"image": tl.Array("uint8", (None, None)), "word": "text"})
    made.extend({"image": [[[10, 20]], [[200]]], "word": ["a", "b"]})
    made.commit("two")
    return made


def test_a_query_loads_the_function_that_it_calls(ds):
    assert "lights" not in sys.modules

    assert ds.query("WHERE brightness(image) < 50").rows.tolist() == [0]
    assert ds.query("SELECT LOUD(word) l")["l"][:] == ["A", "B"]
    assert ds.where("brightness(image) > 50").rows.tolist() == [1]


def test_it_has_its_row_of_documentation():
    function = plug_in("BRIGHTNESS")

    assert function is not None
    assert (function.usage, function.summary) == (
        "BRIGHTNESS(image)",
        "Mean of the pixels of an image.",
    )
    assert {"BRIGHTNESS", "LOUD"} <= {*tql.plug_in_names()}


def test_completion_offers_it_with_its_row_and_loads_only_what_is_begun(ds, installed):
    schema = {"word": tql.ColumnType("text", None, ())}

    def offered(text):
        return {each.text: each.detail for each in tql.complete(text, len(text), schema)}

    assert offered("WHERE bri") == {
        "BRIGHTNESS(": "BRIGHTNESS(image): Mean of the pixels of an image."
    }
    assert offered("WHERE ")["LOUD("] == "of an installed package"
    assert offered("WHERE gon") == {}  # it cannot be loaded, and a query that calls it tells why


def test_the_language_comes_first_and_a_udf_second(ds, monkeypatch):
    monkeypatch.setattr(udf, "_functions", {})
    assert ds.query("SELECT SIN(0) AS s LIMIT 1")["s"][:].tolist() == [0.0]
    tl.udf("loud", lambda text: text * 2, dtype="text")

    assert ds.query("SELECT LOUD(word) l")["l"][:] == ["aa", "bb"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("QUIET(word)", r"is named LOUD\n(.|\n)*in lower case"),
        ("PLAIN(word)", r"is not a Function but <function once(.|\n)*user_function"),
        ("GONE(word)", r"cannot be loaded: (.|\n)*reinstall it"),
        ("TWICE(word)", r"several plug-ins, 'lights:brightness' and 'lights:loud'(.|\n)*uninstall"),
        ("BRIGHTNES(image)", r"no function 'BRIGHTNES'(.|\n)*did you mean 'BRIGHTNESS'"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_named_with_the_remedy(ds, call, why):
    with pytest.raises(tl.QueryNameError, match=why):
        ds.query(f"SELECT {call} AS x")

"""Names of other libraries: an AttributeError says what the thing is called here."""

import re

import pytest

import tensorlake as tl
from tensorlake.dataset.display.hints import LATER, WORDS

ONE_ROW = "memory://neighbours-one-row"


def with_a_row():
    if tl.exists(ONE_ROW):
        return tl.open(ONE_ROW)
    one = tl.create(ONE_ROW, {"x": "int64"})
    one.append({"x": 1})
    one.commit("a row")
    return one


@pytest.fixture(scope="module")
def ds():
    with tl.create("memory://neighbours", {"x": "int64"}) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("features", "the schema is ds.schema"),
        ("num_workers", "ds.torch(workers=…)"),
        ("checkout", "ds.at(version)"),
        ("merge_insert", "ds.upsert(rows, on='id')"),
        ("comit", "did you mean 'commit'?"),
    ],
)
def test_a_neighbours_word_is_answered_with_ours(ds, name, told):
    with pytest.raises(AttributeError, match=re.escape(told)) as raised:
        getattr(ds, name)

    assert str(raised.value).startswith(f"Dataset has no {name!r}; ")


def test_a_word_that_nobody_uses_has_no_hint(ds):
    with pytest.raises(AttributeError, match=r"^Dataset has no 'frobnicate'$"):
        _ = ds.frobnicate


def test_a_view_names_its_dataset_for_writing(ds):
    with pytest.raises(AttributeError, match="write to the dataset that it is of"):
        ds[:0].commit("never")


@pytest.mark.parametrize("name", sorted(WORDS))
def test_what_a_hint_names_is_there(name):
    for attribute in re.findall(r"\bds\.(\w+)", WORDS[name]):
        assert hasattr(tl.Dataset, attribute), attribute
    for attribute in re.findall(r"\btl\.(\w+)", WORDS[name]):
        assert attribute in tl.__all__, attribute


@pytest.mark.parametrize("name", sorted(LATER))
def test_a_word_of_a_later_version_is_an_unsupported_feature_and_not_there(ds, name):
    holders = (ds, ds[:0], tl.mix({"one": (with_a_row(), 1)}))
    lacking = [holder for holder in holders if not hasattr(type(holder), name)]
    assert lacking
    for holder in lacking:
        with pytest.raises(tl.UnsupportedFeatureError, match="comes in a later version") as raised:
            getattr(holder, name)

        assert raised.value.code == "unsupported-feature"
        assert not hasattr(holder, name)
        for attribute in re.findall(r"\bds\.(\w+)", str(raised.value)):
            assert hasattr(tl.Dataset, attribute), attribute


def test_a_mix_says_that_it_only_streams():
    mixed = tl.mix({"one": (with_a_row(), 1)})

    with pytest.raises(AttributeError, match="Mix has no 'query'; a mix only streams"):
        _ = mixed.query


@pytest.mark.parametrize(("name", "told"), [("load", "tl.open(url)"), ("rm", "tl.delete")])
def test_a_name_of_the_package_is_answered_too(name, told):
    with pytest.raises(AttributeError, match=re.escape(told)):
        getattr(tl, name)

"""Which store a URL opens, and how URLs are taken apart."""

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.storage import (
    LocalStore,
    MemoryStore,
    ObjectStore,
    join_url,
    open_store,
    public_url,
    split_url,
)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("some/folder", LocalStore),
        ("file:///data/pets", LocalStore),
        ("memory://pets", MemoryStore),
        ("s3://bucket/pets", ObjectStore),
        ("gs://bucket/pets", ObjectStore),
        ("https://host/pets", ObjectStore),
        ("http://host/pets", ObjectStore),
    ],
)
def test_scheme_chooses_the_store(url, kind):
    assert isinstance(open_store(url), kind)


def test_azure_needs_an_account():
    store = open_store("az://container/pets", storage_options={"account_name": "acme"})

    assert store.url == "az://container/pets"


def test_unknown_scheme_names_the_known_ones():
    with pytest.raises(InvalidInputError, match=r"'ftp'.*\n.*s3://") as caught:
        open_store("ftp://ana:secret@host/pets")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "file://", "memory://", "s3://", "s3:///pets"])
def test_url_that_names_nothing_is_refused(url):
    with pytest.raises(InvalidInputError):
        open_store(url)


def test_local_url_is_the_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert open_store("pets").url == str(tmp_path / "pets")
    assert open_store(tmp_path / "pets").url == str(tmp_path / "pets")
    assert open_store("file:///a%20b/pets/").url == "/a b/pets"


def test_home_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ana")

    assert open_store("~/pets").url == "/home/ana/pets"


def test_durability_reaches_the_folder(tmp_path):
    with pytest.raises(InvalidInputError, match="'sometimes'"):
        open_store(tmp_path, durability="sometimes")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("S3://bucket/Lake", ("s3", "bucket/Lake")),
        ("file://localhost/data", ("file", "/data")),
        ("relative/path", ("file", "relative/path")),
        ("/with:colon://inside", ("file", "/with:colon://inside")),
    ],
)
def test_url_splits_into_scheme_and_rest(url, parts):
    assert split_url(url) == parts


def test_join_url_needs_no_care_for_slashes():
    assert join_url("s3://bucket/lake/", "/pets") == "s3://bucket/lake/pets"
    assert join_url("/data", "pets") == "/data/pets"


def test_public_url_drops_user_and_query():
    assert public_url("https://ana:pw@host:8080/lake/?sig=abc#x") == "https://host:8080/lake"


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_a_password_in_a_buckets_url_is_refused_and_not_told(scheme):
    """It was taken for the bucket's name, and stood in every error of the store."""
    with pytest.raises(InvalidInputError, match="storage_options") as raised:
        open_store(f"{scheme}://ana:hunter2@bucket/pets")

    assert "hunter2" not in str(raised.value)
    assert "hunter2" not in str(raised.value.facts)


@pytest.mark.parametrize("url", ["s3://bucket/pets", "memory://pets", "/tmp/pets"])
@pytest.mark.parametrize("options", [1, "key", [("key", "k")], {1: "k"}])
def test_options_are_a_dict_for_every_store(url, options):
    with pytest.raises(InvalidInputError, match="storage_options= is a dict"):
        open_store(url, storage_options=options)

"""URLs and storage_options become clients."""

import sys

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.storage import open_store
from tensorlake.storage.api.options import connect


def test_fsspec_names_are_mapped_for_s3():
    options = {
        "key": "AKIA",
        "secret": "hush",
        "token": "session",
        "endpoint_url": "http://127.0.0.1:9000",
        "region": "eu-central-1",
        "anon": "false",
    }

    config = connect("s3://bucket/lake/pets", options).client.config

    assert config["access_key_id"] == "AKIA"
    assert config["secret_access_key"] == "hush"
    assert config["session_token"] == "session"
    assert config["endpoint"] == "http://127.0.0.1:9000"
    assert config["region"] == "eu-central-1"
    assert config["virtual_hosted_style_request"] in (False, "false")


def test_names_of_obstore_pass_through():
    client = connect("s3://bucket", {"access_key_id": "AKIA", "secret_access_key": "x"}).client

    assert client.config["access_key_id"] == "AKIA"


def test_anonymous_access_is_not_signed():
    for url in ("s3://bucket", "gs://bucket"):
        config = connect(url, {"anon": "true"}).client.config
        assert config["skip_signature"] in (True, "true")


def test_prefix_is_the_rest_of_the_url():
    assert (
        connect("s3://bucket/lake/pets/", {"key": "a", "secret": "b"}).client.prefix == "lake/pets"
    )


@pytest.mark.parametrize("url", ["s3://bucket/lake", "gs://bucket/lake", "az://bucket/lake"])
def test_unknown_name_is_refused_by_name(url):
    options = {"account_name": "acme"} if url.startswith("az") else {}

    with pytest.raises(InvalidInputError, match="'nonsense'"):
        open_store(url, storage_options={"nonsense": "1", **options})


@pytest.mark.parametrize("url", ["memory://options/pets", "folder"])
def test_a_folder_and_memory_refuse_a_name_that_no_store_knows(url, tmp_path):
    place = str(tmp_path / "pets") if url == "folder" else url

    with pytest.raises(InvalidInputError) as raised:
        open_store(place, storage_options={"key": "a", "endpont_url": "http://localhost:9"})

    assert str(raised.value) == (
        f"storage_options for {place!r} have names that no store knows: 'endpont_url';\n"
        "a folder or memory:// needs none; buckets take key, secret, token, endpoint_url,"
        " region, anon, profile, or obstore's names"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("key", "secret", "token", "endpoint_url", "region", "region_name", "anon", "profile"),
        *("account_name", "sas_token", "aws_access_key_id", "AWS_REGION", "service_account"),
        *("conditional_put", "use_emulator"),
    ],
)
def test_a_folder_lets_pass_what_a_bucket_knows(name, tmp_path):
    """A copy or an ingestion between a bucket and a folder has one set of options."""
    assert open_store(str(tmp_path), storage_options={name: "value"}).url == str(tmp_path)


def test_http_takes_only_a_token():
    assert connect("http://host/lake", {"token": "t"}).is_read_only
    with pytest.raises(InvalidInputError, match="'key'"):
        connect("http://host/lake", {"key": "AKIA"})


def test_secrets_show_nowhere():
    store = open_store("https://ana:hush@host/lake?sig=hush", storage_options={"token": "hush"})

    assert "hush" not in store.url
    assert "hush" not in repr(store)


def test_unusable_value_is_refused_without_quoting_it():
    with pytest.raises(InvalidInputError, match="'endpoint_url'") as caught:
        connect("s3://bucket", {"anon": "hush", "endpoint_url": "http://h"})

    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_profile_needs_boto3(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)

    with pytest.raises(InvalidInputError, match=r"profile 'dev'.*\n.*pip install boto3"):
        connect("s3://bucket", {"profile": "dev"})


def test_a_profile_that_is_not_there_or_has_no_credentials_is_an_error_of_ours(
    tmp_path, monkeypatch
):
    pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    config = tmp_path / "config"
    config.write_text("[profile bare]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))

    with pytest.raises(InvalidInputError, match=r"profile 'absent' cannot be used.*\n.*key="):
        connect("s3://bucket", {"profile": "absent"})
    with pytest.raises(InvalidInputError, match=r"profile 'bare' has no credentials"):
        connect("s3://bucket", {"profile": "bare"})
    assert connect("s3://bucket").client.credential_provider is None  # roles are left to the store

    config.write_text("region = no section")
    with pytest.raises(InvalidInputError, match="default AWS profile cannot be used"):
        connect("s3://other")


def test_profile_is_read_from_the_shared_file(tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    credentials = tmp_path / "credentials"
    credentials.write_text(
        "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=x\n"
        "[dev]\naws_access_key_id=AKIA2\naws_secret_access_key=x\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    chosen = connect("s3://bucket", {"profile": "dev"}).client.credential_provider
    usual = connect("s3://bucket").client.credential_provider

    assert chosen()["access_key_id"] == "AKIA2"
    assert usual()["access_key_id"] == "AKIA1"
    assert connect("s3://bucket", {"key": "a", "secret": "b"}).client.credential_provider is None


def test_the_endpoint_and_region_of_the_environment_hold_where_no_option_says_them(monkeypatch):
    keys = {"key": "a", "secret": "b"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")

    usual = connect("s3://bucket", keys).client
    given = connect("s3://bucket", {**keys, "endpoint_url": "http://127.0.0.1:2"}).client
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:3")
    own = connect("s3://bucket", keys).client

    clients = (usual, given, own)
    assert [one.config["endpoint"][-1] for one in clients] == ["1", "2", "3"]
    assert {one.config["region"] for one in clients} == {"eu-north-1"}
    assert all(one.client_options["allow_http"] for one in clients)


def test_a_client_is_made_once_for_the_same_place_options_and_environment(monkeypatch):
    keys = {"key": "a", "secret": "b", "endpoint_url": "http://127.0.0.1:1"}

    first = connect("s3://bucket/lake", keys).client

    assert connect("s3://bucket/lake/", dict(keys)).client is first
    assert connect("s3://bucket/other", keys).client is not first
    assert connect("s3://bucket/lake", {**keys, "secret": "c"}).client is not first
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of a new role")
    assert connect("s3://bucket/lake", keys).client is not first


def test_a_client_whose_credentials_a_file_gives_is_made_anew(tmp_path, monkeypatch):
    pytest.importorskip("boto3")
    credentials = tmp_path / "credentials"
    credentials.write_text("[dev]\naws_access_key_id=AKIA1\naws_secret_access_key=x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    before = connect("s3://bucket", {"profile": "dev"}).client
    credentials.write_text("[dev]\naws_access_key_id=AKIA2\naws_secret_access_key=x\n")

    now = connect("s3://bucket", {"profile": "dev"}).client

    assert before is not now
    assert now.credential_provider()["access_key_id"] == "AKIA2"


def test_only_the_last_few_clients_are_kept():
    keys = {"key": "a", "secret": "b"}
    first = connect("s3://bucket/0", keys).client

    for number in range(1, 20):
        connect(f"s3://bucket/{number}", keys)

    assert connect("s3://bucket/0", keys).client is not first

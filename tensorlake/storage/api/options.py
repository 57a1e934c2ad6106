"""Turn a URL and fsspec-style `storage_options` into a client of obstore.

    fsspec's name            S3                   GCS                  Azure
    key, secret, token       access_key_id, …     token: a file        -
    account_name, …          -                    -                    as they are
    endpoint_url             endpoint             base_url             endpoint
    region, anon             region, skip_…       skip_signature       skip_signature

obstore's own names pass through; others raise an error that names them. Without credentials the
usual chain applies: environment, profile (by boto3, where it is installed), role. A client never
retries by itself (`max_retries=0`): a repeated conditional PUT would report its own first success
as that of another writer.

Creating an S3 client reads the machine's certificates, 5 to 8 ms, and its connections begin with
handshakes. So the last few clients of a process are cached by bucket, prefix, options and
environment. Clients whose credentials come from a file or a callback are not cached: the
credentials may have changed by the next call.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

from tensorlake.errors import InvalidInputError, shown
from tensorlake.storage.api.urls import check_parts, public_url

OBJECT_SCHEMES: Final = ("s3", "gs", "az", "http", "https")

_S3_NAMES: Final = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "anon": "skip_signature",
}
_GCS_NAMES: Final = {
    "token": "application_credentials",
    "endpoint_url": "base_url",
    "anon": "skip_signature",
}
_AZURE_NAMES: Final = {
    "sas_token": "sas_key",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
}
_SECRET_WORDS: Final = ("secret", "token", "password", "sas", "account_key", "service_account_key")
_S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # in the order of Amazon's tools
_KEPT_CLIENTS: Final = 8  # a process reads few places; an idle one keeps a few connections
# Each request has a deadline by its size (stores/object_store.py); the client's own only bounds the
# rest.
_CLIENT_OPTIONS: Final = {"timeout": "1h", "connect_timeout": "10s"}

Client = S3Store | GCSStore | AzureStore | HTTPStore


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, the URL to show for it, and what must never be shown."""

    client: Client
    url: str
    secrets: tuple[str, ...]
    is_read_only: bool


def check_options(storage_options: object) -> None:
    """Check that options are None or a dict with names, which the store then interprets.

    Raises:
        InvalidInputError: They are something else.
    """
    names = storage_options if isinstance(storage_options, Mapping | None) else [None]
    if not all(isinstance(name, str) for name in names or ()):
        raise InvalidInputError(
            f"storage_options= is a dict by fsspec's key names, got {shown(storage_options)}"
            '\nwrite storage_options={"endpoint_url": "https://…"}',
            argument="storage_options",
        )


def refuse_unknown(url: str, storage_options: Mapping[str, str] | None) -> None:
    """Reject option names that no store accepts; for a folder or memory, which accept none.

    Options of buckets are ignored, so that one set of options serves a copy or an ingestion
    between a bucket and a folder, and a program that is tried on a folder.

    Raises:
        InvalidInputError: There are such names.
    """
    unknown = sorted(name for name in storage_options or () if not _is_known(name))
    if unknown:
        place = public_url(url)
        raise InvalidInputError(
            f"storage_options for {shown(place)} have names that no store knows:"
            f" {', '.join(map(repr, unknown))};\n"
            "a folder or memory:// needs none; buckets take key, secret, token, endpoint_url,"
            " region, anon, profile, or obstore's names",
            url=place,
            names=unknown,
        )


def _is_known(name: str) -> bool:
    """Whether an object store accepts an option of this name; obstore checks its own names."""
    if name == "profile" or any(name in own for own in (_S3_NAMES, _GCS_NAMES, _AZURE_NAMES)):
        return True
    for kind in (S3Store, GCSStore, AzureStore):
        try:
            kind("bucket", config={name: ""})  # pyright: ignore[reportArgumentType] - a TypedDict, of a name that is asked for
        except exceptions.UnknownConfigurationKeyError:
            continue
        except (exceptions.BaseError, ValueError):
            return True  # the name is right, and the value is not
        return True
    return False


def connect(url: str, storage_options: Mapping[str, str] | None = None) -> Connection:
    """Create the client for an s3, gs, az or http(s) URL; no request is sent yet."""
    scheme, _, rest = url.partition("://")
    options = {name: str(value) for name, value in (storage_options or {}).items()}
    secrets = tuple(
        value
        for name, value in options.items()
        if value and any(word in name.lower() for word in _SECRET_WORDS)
    )
    bucket, _, prefix = rest.rstrip("/").partition("/")
    place = public_url(url)
    if not bucket:
        raise InvalidInputError(
            f"{place!r} names no bucket or host;\nuse '{scheme}://<bucket>/<path>'", url=place
        )
    if scheme not in ("http", "https"):
        check_parts(url)
    try:
        if scheme == "s3":
            client = _s3(bucket, prefix or None, options)
        elif scheme == "gs":
            client = _make(GCSStore, bucket, prefix or None, _renamed(options, _GCS_NAMES))
        elif scheme == "az":
            client = _make(AzureStore, bucket, prefix or None, _renamed(options, _AZURE_NAMES))
        else:
            client = _http(url, options)
    except InvalidInputError:
        raise
    except exceptions.UnknownConfigurationKeyError as error:
        raise InvalidInputError(
            f"storage_options for {place!r} have a name that {scheme} does not know"
            f" (of {sorted(options)});\n"
            "use key, secret, token, endpoint_url, region, anon, or obstore's names",
            url=place,
            names=sorted(options),
        ) from error
    except (exceptions.BaseError, ValueError) as error:
        # Not chained: the cause may quote what it was given.
        raise InvalidInputError(
            f"storage_options for {place!r} are not usable ({type(error).__name__});\n"
            f"check the values of {sorted(options)}",
            url=place,
            names=sorted(options),
        ) from None
    return Connection(client, place, secrets, is_read_only=scheme in ("http", "https"))


def _s3(bucket: str, prefix: str | None, options: dict[str, str]) -> S3Store:
    profile = options.pop("profile", None)
    # One DELETE for one object: simpler stores know no bulk delete.
    config = {"disable_bulk_delete": "true", **_renamed(options, _S3_NAMES)}
    if not any("endpoint" in name for name in config):
        named = (os.environ.get(name) for name in _S3_ENDPOINTS)
        endpoint = next(filter(None, named), None)
        config |= {} if endpoint is None else {"endpoint": endpoint}
    if "endpoint" in config:
        config.setdefault("virtual_hosted_style_request", "false")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        # Servers with a single region require only that one is given.
        config.setdefault("region", region or "us-east-1")
    if profile is not None or _needs_profile(config):
        return _make(S3Store, bucket, prefix, config, _profile_credentials(profile))
    environment = tuple(sorted(os.environ.items()))
    return _kept_s3(os.getpid(), environment, bucket, prefix, tuple(sorted(config.items())))


@lru_cache(maxsize=_KEPT_CLIENTS)
def _kept_s3(
    process: int,
    environment: tuple[tuple[str, str], ...],
    bucket: str,
    prefix: str | None,
    config: tuple[tuple[str, str], ...],
) -> S3Store:
    """Create a client; process and environment are part of the cache key: it depends on both."""
    del process, environment  # its threads are of this process; keys and proxies may be variables
    return _make(S3Store, bucket, prefix, dict(config))


def _http(url: str, options: dict[str, str]) -> HTTPStore:
    token = options.pop("token", None)
    if options:
        raise InvalidInputError(
            f"storage_options {sorted(options)} mean nothing for {public_url(url)!r};\n"
            "use token, or none",
            names=sorted(options),
        )
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    client_options: dict[str, Any] = {**_CLIENT_OPTIONS, "allow_http": url.startswith("http://")}
    if headers:
        client_options["default_headers"] = headers
    return HTTPStore(url, client_options=client_options, retry_config={"max_retries": 0})  # pyright: ignore[reportArgumentType] - a TypedDict spelled as a dict


def _make(
    kind: Any, bucket: str, prefix: str | None, config: dict[str, str], provider: Any = None
) -> Any:
    endpoint = config.get("endpoint") or config.get("base_url") or ""
    client_options = {**_CLIENT_OPTIONS, "allow_http": endpoint.startswith("http://")}
    return kind(
        bucket,
        prefix=prefix,
        config=config,
        client_options=client_options,
        retry_config={"max_retries": 0},
        credential_provider=provider,
    )


def _renamed(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {names.get(name, name): value for name, value in options.items()}


def _needs_profile(config: Mapping[str, str]) -> bool:
    """Whether only a profile of the shared AWS files can provide the credentials."""
    if {"access_key_id", "skip_signature"} & config.keys() or "AWS_ACCESS_KEY_ID" in os.environ:
        return False
    files = (
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    )
    has_files = any(Path(file).expanduser().exists() for file in files)
    return has_files and importlib.util.find_spec("boto3") is not None


def _profile_credentials(profile: str | None) -> Any:
    if importlib.util.find_spec("boto3") is None:
        raise InvalidInputError(
            f"storage_options name the AWS profile {profile!r}, which only boto3 can read;\n"
            "pip install boto3, or give key= and secret=",
            profile=profile,
        )
    import boto3
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    named = "the default AWS profile" if profile is None else f"the AWS profile {profile!r}"
    try:
        session = boto3.Session(profile_name=profile)
        has_credentials = session.get_credentials() is not None
    except BotoCoreError as error:  # no such profile, or a file that is none
        raise InvalidInputError(
            f"{named} cannot be used: {error}\nlook into ~/.aws/config and ~/.aws/credentials, or"
            " give key= and secret=",
            profile=profile,
        ) from error
    if has_credentials:
        return Boto3CredentialProvider(session)
    if profile is None:  # the files may give only a region; the store's own chain has roles, too
        return None
    raise InvalidInputError(
        f"{named} has no credentials\nadd them to ~/.aws/credentials, or give key= and secret=",
        profile=profile,
    )

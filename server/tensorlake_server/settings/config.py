"""Configuration: flags take precedence over the environment, and the environment over a file.

    --max-streams 100, then TENSORLAKE_SERVE_MAX_STREAMS=100, then max_streams = 100 in the file

Names are the flags', with underscores. A secret such as a signing key has no flag, only the
environment: TENSORLAKE_SIGNING_KEY.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.storage import public_url

__all__ = ["OPTIONS", "print_config", "resolve_options"]

PREFIX = "TENSORLAKE_SERVE_"
TRUE, FALSE = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


def _flag(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError("give true or false")
    return text.lower() in TRUE


OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "host": str,
    "port": int,
    "workers": int,
    "public_read": _flag,
    "auth": Path,
    "oidc": str,
    "oidc_audience": str,
    "oidc_claim": str,
    "oidc_groups": Path,
    "write": _flag,
    "presign": _flag,
    "follow_links": _flag,
    "audit_log": Path,
    "audit_nbytes": int,
    "audit_files": int,
    "max_connections": int,
    "max_held_nbytes": int,
    "max_requests_per_s": float,
    "max_streams": int,
    "max_streams_each": int,
    "max_batch_streams": int,
    "max_batch_streams_each": int,
    "header_patience_s": float,
    "body_patience_s": float,
    "answer_patience_s": float,
    "min_nbytes_per_s": float,
    "stream_patience_s": float,
    "drain_s": float,
    "max_query_s": float,
    "flows": str,
    "max_job_s": float,
    "max_query_nbytes": int,
    "max_query_memory_nbytes": int,
    "max_queries": int,
    "max_queries_each": int,
    "group_wait_s": float,
    "max_write_nbytes": int,
    "max_page_nbytes": int,
    "views_nbytes": int,
    "derived": str,
    "derived_nbytes": int,
    "selections": Path,
    "selections_nbytes": int,
    "exports": Path,
    "exports_nbytes": int,
}
"""An option, and the parser of its text."""

KINDS: Mapping[Any, Any] = {str: str, int: int, float: (int, float), _flag: bool, Path: str}
"""The types allowed in a file."""


def resolve_options(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None
) -> dict[str, Any]:
    """Combine the options that were set, by name; others are left out.

    Raises:
        InvalidInputError: A name is not an option, or a value is not of its type, with its place.
    """
    found = {} if file is None else _from_file(file)
    for name, parse in OPTIONS.items():
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            found[name] = _parsed(parse, text, f"{PREFIX}{name.upper()}={text!r}")
    for variable in environment:
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in OPTIONS:
            raise _unknown(name, f"the environment sets {variable}")
    return found | {name: value for name, value in flags.items() if value is not None}


def print_config(settings: Any) -> str:
    """Write the settings as TOML, each secret as stars.

    Args:
        settings: A ``Settings``.
    """
    lines = [f"url = {_toml(public_url(settings.url))}"]
    for name in OPTIONS:
        value = getattr(settings, name)
        if isinstance(value, str):  # of a database, a bucket, an issuer: it may have a password
            value = public_url(value)
        lines.append(f"# {name} is not set" if value is None else f"{name} = {_toml(value)}")
    lines.append('# signing_key = "***"')
    names = sorted(settings.storage_options or {})
    lines += [f'# storage option {name} = "***"' for name in names]
    return "\n".join(lines) + "\n"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInputError(
            f"cannot read the configuration {str(file)!r}: {reason}"
            "\ngive a TOML file, as: max_streams = 100; --print-config writes all that holds"
        ) from error
    found: dict[str, Any] = {}
    for name, value in given.items():
        parse = OPTIONS.get(name)
        if parse is None:
            raise _unknown(name, f"{str(file)!r} sets {name!r}")
        kind = KINDS[parse]
        is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not is_kind:
            raise InvalidInputError(f"{str(file)!r}: {name} = {value!r} is of another kind")
        found[name] = Path(str(value)) if parse is Path else value
    return found


def _unknown(name: str, where: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where}, which is not an option{did_you_mean(name, OPTIONS)}"
        f"\nthe options: {', '.join(OPTIONS)}"
    )


def _parsed(parse: Callable[[str], Any], text: str, shown: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInputError(f"{shown}: {error}") from error


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

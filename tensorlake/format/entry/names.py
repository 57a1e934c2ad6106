"""Names and ids of tensors."""

from __future__ import annotations

import secrets
import unicodedata
from typing import Any

from tensorlake.errors import SchemaError, shown

__all__ = ["check_tensor_id", "check_tensor_name", "new_tensor_id"]

MAX_NAME_NBYTES = 200
_ID_NBYTES = 5
_ID_LENGTH = 2 * _ID_NBYTES


def check_tensor_name(name: object) -> str:
    """Return the name if a tensor may have it.

    Raises:
        SchemaError: It is empty, longer than 200 bytes, begins with "_", is not in Unicode's
            NFC form, or has an empty group or a control character.
    """
    problem, advice = "", "give another name"
    if not isinstance(name, str):
        problem, advice = f"is {type(name).__name__}, not a str", "write it in quotes"
    elif not name or "" in name.split("/"):
        problem, advice = "has an empty part", 'name it, with "/" between groups: "train/image"'
    elif name.startswith("_"):
        problem = 'begins with "_", as only virtual columns do'
        advice = f"name it {name.lstrip('_')!r}" if name.strip("_") else advice
    elif any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        problem = "has a control character"
    elif unicodedata.normalize("NFC", name) != name:
        problem = "is not in Unicode's NFC form, so it looks the same as another name"
        advice = "give unicodedata.normalize('NFC', name)"
    elif len(name.encode()) > MAX_NAME_NBYTES:
        problem, advice = f"is longer than {MAX_NAME_NBYTES} bytes", "shorten it"
    if problem or not isinstance(name, str):
        described = repr(name) if len(repr(name)) <= MAX_NAME_NBYTES else f"{shown(name)}…"
        raise SchemaError(f"the tensor name {described} {problem}\n{advice}", tensor=name)
    return name


def new_tensor_id() -> str:
    """Return 40 random bits as 10 hex digits."""
    return secrets.token_hex(_ID_NBYTES)


def check_tensor_id(value: Any) -> str:
    """Return an id after checking it.

    Raises:
        SchemaError: It is not one.
    """
    if not isinstance(value, str) or len(value) != _ID_LENGTH:
        raise SchemaError(f"{value!r} is not a tensor id\nan id is {_ID_LENGTH} hex digits")
    int(value, 16)
    return value

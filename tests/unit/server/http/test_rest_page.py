"""docs/reference/rest.md is whole: it names every route, and every field of every message."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tensorlake_server.messages import changes, messages
from tensorlake_server.messages.messages import Message

PAGE = (Path(__file__).parents[4] / "docs/reference/rest.md").read_text()
FIELDS = sorted(
    {
        field
        for module in (messages, changes)
        for name in module.__all__
        if isinstance(model := getattr(module, name), type) and issubclass(model, Message)
        for field in (one.alias or key for key, one in model.model_fields.items())
    }
)


@pytest.mark.parametrize("field", FIELDS)
def test_the_page_names_every_field(field: str) -> None:
    assert re.search(rf"(?<!\w){re.escape(field)}\b", PAGE)


def test_the_page_names_every_route(client: httpx.Client) -> None:
    routes = client.get("/v1/openapi.json").json()["paths"]

    assert [route for route in routes if f"{route}`" not in PAGE] == []

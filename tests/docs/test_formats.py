"""The page of other libraries has code that runs for each format of `tl.ingest`."""

from __future__ import annotations

import re

import tensorlake as tl
from tests.docs.test_snippets import NOT_RUN, ROOT, snippets

PAGE = ROOT / "docs" / "how-to" / "come-from-another-library.md"


def test_each_importer_is_called_in_code_that_runs():
    run = [one.text for one in snippets(PAGE) if not NOT_RUN.match(one.text)]
    called = {name for text in run for name in re.findall(r"tl\.ingest\.(\w+)\(", text)}
    importers = {name for name in tl.ingest.__all__ if name.islower()}

    assert importers - called == set()


def test_each_importer_is_in_the_table_of_the_reference():
    text = (ROOT / "docs" / "reference" / "sdk.md").read_text()

    for name in tl.ingest.__all__:
        assert not name.islower() or f"| `{name}(" in text, name

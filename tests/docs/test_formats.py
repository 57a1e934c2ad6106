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


def test_each_export_is_called_in_code_that_runs():
    pages = sorted((ROOT / "docs" / "how-to").glob("*.md"))
    run = [one.text for page in pages for one in snippets(page) if not NOT_RUN.match(one.text)]
    called = {name for text in run for name in re.findall(r"\.(to_\w+)\(", text)}
    exports = {name for name in dir(tl.Dataset) if name.startswith("to_")}

    assert exports - called == set()


def test_each_importer_and_export_is_in_the_table_of_formats():
    text = (ROOT / "docs" / "reference" / "sdk.md").read_text()
    _, _, rest = text.partition("| format | import | export | tested against |\n")
    named = {*re.findall(r"`(?:ingest)?\.?(\w+)", rest.partition("\n\n")[0])}
    importers = {name for name in tl.ingest.__all__ if name.islower()}
    exports = {name for name in dir(tl.Dataset) if name.startswith("to_")}

    assert (importers | exports) - named == set()


def test_each_importer_is_in_the_table_of_the_reference():
    text = (ROOT / "docs" / "reference" / "sdk.md").read_text()

    for name in tl.ingest.__all__:
        assert not name.islower() or f"| `{name}(" in text, name

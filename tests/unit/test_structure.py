"""The structure that `make structure` prints: small folders, no circles, flat classes, true map."""

import re

import tensorlake as tl
from tests.tools.structure import (
    MAX_WALKS,
    PACKAGES,
    ROOT,
    circles,
    crowded,
    depth,
    import_circles,
    walks,
)

MAP = ROOT / "docs/explanation/architecture.md"


def rooms_of_the_tree() -> set[str]:
    return {
        path.parent.relative_to(ROOT).as_posix() + "/"
        for package in PACKAGES.values()
        for path in package.rglob("*/__init__.py")
    }


def rooms_of_the_map() -> list[str]:
    return re.findall(r"^\| `([\w/]+/)` \|", MAP.read_text("utf-8"), flags=re.MULTILINE)


def test_no_folder_shows_more_than_fifteen_entries():
    assert crowded() == {}


def test_no_files_import_each_other():
    assert import_circles() == []


def test_circles_are_found_where_there_are_some():
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"], "f": ["a"]}

    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]


def test_handles_inherit_from_one_class_at_most():
    assert {kind.__name__: depth(kind) for kind in (tl.Dataset, tl.View, tl.Tensor, tl.Row)} == {
        "Dataset": 1,
        "View": 1,
        "Tensor": 0,
        "Row": 0,
    }


def test_the_map_lists_the_rooms_that_there_are():
    roots = {"query/tensorlake_query/", "server/tensorlake_server/", "viewer/src/"}
    mapped = rooms_of_the_map()

    assert len(mapped) == len(set(mapped))
    assert set(mapped) - roots == rooms_of_the_tree()


def test_the_files_that_the_map_begins_with_exist():
    rows = re.findall(r"^\| `([\w/]+/)` \|.*\| ([^|]+) \|$", MAP.read_text("utf-8"), re.MULTILINE)

    missing = [
        f"{room}{name}"
        for room, names in rows
        for name in re.findall(r"`([^`]+)`", names)
        if not (ROOT / room / name).exists()
    ]

    assert missing == []


def test_printing_the_structure_or_times_never_installs():
    makefile = (ROOT / "Makefile").read_text("utf-8")

    for target in ("structure", "test-times", "changes", "licences"):
        (needed,) = re.findall(rf"^{target}: ([^#]*?) ##", makefile, re.MULTILINE)
        assert needed == "$(BIN)/python", target
    recipe = makefile[makefile.index("\n$(BIN)/python:") :].split("\n\n")[0]
    assert "install" not in recipe


def test_everyday_calls_enter_few_files():
    entered = walks("memory://structure-test")

    assert {call: files for call, files in entered.items() if len(files) > MAX_WALKS[call]} == {}
    assert "tensorlake/versions/transaction/publish.py" in entered["tiny commit"]
    assert "tensorlake/versions/log/log.py" in entered["tiny commit"]  # on the storage loop
    hand_nothing_to_the_loop = {"append", "one cell", "next batch"}
    assert all(
        "tensorlake/storage/concurrency/runtime.py" not in entered[call]
        for call in hand_nothing_to_the_loop
    )
    assert "tensorlake/dataset/write/staging.py" in entered["append"]
    assert "tensorlake/reading/reader.py" in entered["one cell"]
    assert "tensorlake/loader/engine/iterator.py" in entered["next batch"]

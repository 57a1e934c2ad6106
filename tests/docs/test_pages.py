"""The index, the site and the map of the rooms leave nothing out, and name only what there is."""

import re
import tomllib
from pathlib import Path
from types import ModuleType

import tensorlake as tl
from tests.tools import site

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
PAGES = {
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if page.relative_to(DOCS).parts[0] not in {"decisions", "site"} and page.name != "index.md"
} | {"decisions/index.md"}


def test_the_index_links_every_page():
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "index.md").read_text("utf-8")))

    assert linked == PAGES


def test_the_site_has_every_page():
    config = tomllib.loads((DOCS / "zensical.toml").read_text("utf-8"))

    listed = set(re.findall(r"'([\w/-]+\.md)'", str(config["project"]["nav"])))

    made = {f"reference/api/{name}.md" for name in site.pages()}
    assert listed == PAGES | {"index.md"} | made


def test_each_page_to_start_from_names_the_extras_that_it_needs():
    pages = {page.name: page.read_text("utf-8") for page in (DOCS / "start").glob("*.md")}
    del pages["jobs.md"]  # which links the others

    named = {
        name: set(found[1].split(","))
        for name, text in pages.items()
        if (found := re.search(r"`pip install '\.\[([\w,]+)\]'` has what this page needs", text))
    }

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert named.keys() == pages.keys()
    assert set().union(*named.values()) <= project["optional-dependencies"].keys()


def test_nothing_says_to_install_the_product_of_another_that_has_our_name():
    texts = [ROOT / "README.md", *DOCS.rglob("*.md")]
    texts += [
        one for room in ("tensorlake", "query", "server") for one in (ROOT / room).rglob("*.py")
    ]

    wrong = re.compile(r"install (?:-\S+ )*['\"]?tensorlake(?![-\w/])")
    assert [str(one) for one in texts if wrong.search(one.read_text("utf-8"))] == []


def test_the_site_describes_every_public_name_once():
    described = [name for _, objects in site.pages().values() for name in objects]

    modules = {name for name in tl.__all__ if isinstance(getattr(tl, name), ModuleType)}
    assert {f"tl.{name}" for name in tl.__all__ if name not in modules} <= set(described)
    assert {f"tl.{name}" for name in modules - {"errors"}} <= {
        one.rpartition(".")[0] for one in described
    }
    assert len(described) == len(set(described))


def test_a_page_of_the_site_has_signatures_sections_and_examples():
    text = site.page("Functions", {"tl.copy": tl.copy, "tl.Dataset": tl.Dataset})

    assert "## tl.copy\n\n```python\ntl.copy(\n    src: " in text
    assert "\n**Args**\n\n- `src`: " in text
    assert "### Dataset.append\n\n```python\nappend(row: Mapping[str, Any]) -> None\n```" in text
    assert "```python\n>>> import tensorlake as tl\n" in text
    assert "Example:" not in text


def test_the_index_of_decisions_has_each_with_its_title():
    listed = re.findall(
        r"^- \[(\d+)\]\((\d+-[\w-]+\.md)\): (.+)$",
        (DECISIONS / "index.md").read_text("utf-8"),
        re.MULTILINE,
    )
    pages = {page.name: page.read_text("utf-8").splitlines()[0] for page in DECISIONS.glob("0*.md")}
    del pages["0000-template.md"]

    assert {name: f"# {number}: {title}" for number, name, title in listed} == pages
    assert len(listed) == len(pages)


def test_the_map_of_the_rooms_names_what_there_is():
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w/]+/)` \|.*\| ([^|]+) \|$", page, flags=re.MULTILINE)
    rooms = {room: re.findall(r"`([\w/.]+)`", begin) for room, begin in rows}

    missing = [
        room + one
        for room, names in rooms.items()
        for one in names
        if not (ROOT / room / one).exists()
    ]

    assert missing == []


def test_the_way_of_a_row_names_what_there_is():
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    stops = re.findall(r"`([\w/]+\.py)` `(\w+)`", page)

    missing = [
        f"{path}: {name}"
        for path, name in stops
        if not re.search(
            rf"^(class|def|async def) {name}\b",
            (ROOT / "tensorlake" / path).read_text("utf-8"),
            flags=re.MULTILINE,
        )
    ]

    assert len(stops) > 10
    assert missing == []


def test_a_commit_is_followed_through_seven_files_that_there_are():
    page = (DOCS / "explanation" / "how-a-commit-is-published.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d) \| `([\w/]+\.py)` \| `(?:\w+\.)?(\w+)", page, flags=re.MULTILINE)

    missing = [
        f"{path}: {name}"
        for _, path, name in rows
        if not re.search(
            rf"^ *(async )?def {name}\b", (ROOT / path).read_text("utf-8"), re.MULTILINE
        )
    ]

    assert [number for number, _, _ in rows] == [*"1234567"]
    assert missing == []

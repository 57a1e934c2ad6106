"""Every link from one page of the repository to another leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
ABROAD = ("http://", "https://", "mailto:")


def links(page: Path) -> list[tuple[str, str]]:
    return [
        (found[1], found[2] or "")
        for found in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8")))
        if (found[1] or found[2]) and not found[1].startswith(ABROAD)
    ]


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as a forge does: lower case, words joined, the rest left out."""
    titles = re.findall(
        r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE
    )
    words = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {"#" + re.sub(r"[^\w\- ]", "", one).strip().replace(" ", "-") for one in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page):
    targets = [target for target, _ in links(page) if target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_into_a_page_name_a_heading_of_it(page):
    lost = [
        f"{target}{anchor}"
        for target, anchor in links(page)
        if anchor and anchor not in anchors(page.parent / target if target else page)
    ]

    assert lost == []


def test_every_page_is_reached_from_the_readme():
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop().resolve()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        ahead += [page.parent / target for target, _ in links(page) if target]

    assert {page.relative_to(ROOT).as_posix() for page in {*PAGES} - reached} == set()

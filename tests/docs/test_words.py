"""Words and turns of phrase that the house does not use in pages, docstrings, messages and help.

`python tests/docs/test_words.py PATH…` lists them in the files and folders given, each as
`file:line: words -> what to write (where)`. Comments and code in pages are not looked at.

`ALLOWED` holds what is left in the rooms that are not reworded yet: a number there may only fall.
"""

import ast
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "changes", "docs", "viewer/README.md")
SOURCES = ("tensorlake", "query", "server", "viewer/src", "examples", "docker", "benchmarks")
ALLOWED = {  # by the longest prefix; for the rooms together that a folder may move between
    "docs/decisions": 116,
    "tensorlake": 1,  # a report of versions, quoted in a docstring of dataset
    "tensorlake/ingest": 15,
    "query": 42,
    "benchmarks": 16,
}

START = r"(?:^|(?<=[.;:?!] ))"  # of a sentence, or of a half of one
STATEMENT = r"(?![^.;:]*\?)"  # and not of a question
SUBJECT = "a noun as the subject"
BANNED = {  # what is found -> what to write
    r"(?<![Tt]here )\b(?:is|are|was|were|be) (?:no(?! longer\b| more than\b| less than\b)"
    r"|none(?! of\b))\b": "is not a …",
    rf"{START}(?:What|Who)\b(?! would change){STATEMENT}": SUBJECT,
    r"(?:[,;:(—–] |\b(?:and|but|or|that|since|so|while|where|if|when|then) )"
    rf"what (?:is|are|was|were)\b{STATEMENT}": SUBJECT,
    r"\b[Ww]hoever\b": SUBJECT,
    r"\b[Ss]o many\b(?! \w+ that\b)": "N, the number of",
    r"\b(?:[Nn]obody|[Ss]omebody)\b": "no client, another writer, …",
    r"\b(?:stands?|stood|standing)\b(?!-| (?:for|in for|out|by|alone)\b)": "is",
    r"\bafar\b|\bfar away\b": "remote",
    r"\bfor ever\b": "permanently, never",
    rf"{START}Of (?!course\b|these\b|those\b|the \d|\d)": "the noun first",
    r"\b(?:told|says|said)\b": "reports, specifies, is passed",
    r"\b(?:taken|taking|took) in\b(?! (?:parallel|order|turns?|full|all|a worker|\d))": "ingest",
    r"\ba rank and batch\b|\d \w+ a (?:rank|batch|worker|row|chunk|process)\b(?!')": "per",
    r"\b[Pp]ictures?\b": "image",
    r"\b[Ss]cattered\b": "random (access)",
    r"\b(?:gives?|given|gave|giving) up\b(?! (?:after|on|waiting|when|if)\b)": "expire",
    r"\bput in order\b": "sorted",
    r"\btruth values?\b": "boolean",
    r"\b[Ww]hole numbers?\b": "integer",
    r"\blengths? of time\b": "interval, duration",
    r"\b[Tt]urned box(?:es)?\b": "rotated boxes",
    r"\b[Rr]un lengths\b": "RLE",
    r"\b[Ll]ooks? closely\b": "detail view",
    r"\banew\b": "again",
    r"\bby the clock\b(?! that)|(?<=\d )of the processor\b": "wall time, CPU time",
    rf"{START}(?:Say|Tell)\b": "Return, Describe, Report",
    r"(?<! let )\bgo(?:es)? on(?= (?:with|from|after|behind|until))\b": "continue, resume",
    r"\b(?:lies?|lay|lying) (?:in|under|beside|behind)\b": "is (stored) in",
}
PATTERN = re.compile("|".join(f"({found})" for found in BANNED))
INSTEAD = list(BANNED.values())
HIDDEN = "·"  # where code was
Text = tuple[int, str]  # the line that it starts at, and the text


def page_texts(source: str) -> Iterator[Text]:
    """Yield paragraphs, list items and cells, each starting a sentence; no headings, no code."""
    skipped = r"^( *)(?P<fence>```|~~~).*?^ *(?P=fence)|<!--.*?-->|^ *#.*?$|^ *(?:>>>|\.\.\.) .*?$"
    prose = re.sub(skipped, _newlines, source, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", _newlines, prose, flags=re.DOTALL)
    prose = re.sub(r"(?<=\])\([^()\s]*\)|https?://\S+", "", prose)
    line = 1
    for part in re.split(r"(\n *\n|\n(?= *(?:[-*|>]|\d+\.) )|(?<! ) ?\| )", prose):
        lead = re.match(r"[\s>|*-]*(?:\d+\. )?[*_]*", part)
        end = lead.end() if lead else 0
        yield line + part.count("\n", 0, end), part[end:]
        line += part.count("\n")


def python_texts(source: str) -> Iterator[Text]:
    """Yield the strings of two words or more: docstrings, messages and help."""
    parts: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            text = "".join(
                part.value
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
                else HIDDEN
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield from ((node.lineno + line - 1, words) for line, words in page_texts(text))


def viewer_texts(source: str) -> Iterator[Text]:
    """Yield the strings of a script, and the words between the tags of a component."""
    unseen = r"/\*.*?\*/|(?<![:\w])//[^\n]*|<style.*?</style>|<!--.*?-->"
    code = re.sub(unseen, _newlines, source, flags=re.DOTALL)
    quoted = r"'([^'\n]* [^'\n]*)'|\"([^\"\n]* [^\"\n]*)\"|`([^`\n]* [^`\n]*)`"
    for found in re.finditer(quoted, code):
        yield (
            code.count("\n", 0, found.start()) + 1,
            re.sub(r"\$?\{[^{}]*\}", HIDDEN, found[0][1:-1]),
        )
    markup = re.sub(r"<script.*?</script>", _newlines, code, flags=re.DOTALL)
    if markup != code:
        for found in re.finditer(r">([^<>{}=;]*\w[^<>{}=;]*)(?=[<{])", markup):
            yield markup.count("\n", 0, found.start(1)) + 1, found[1]


def _newlines(found: re.Match[str]) -> str:
    return HIDDEN + "\n" * found[0].count("\n")


READERS = {
    ".md": page_texts,
    ".py": python_texts,
    ".ts": viewer_texts,
    ".svelte": viewer_texts,
    ".html": viewer_texts,
}


def hits(path: Path) -> Iterator[str]:
    """Yield one line for each of the file's banned words."""
    for line, text in READERS[path.suffix](path.read_text(encoding="utf-8")):
        words = list(re.finditer(r"\S+", text))
        joined = " ".join(word[0] for word in words)
        starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))
        for found in PATTERN.finditer(joined):
            word = words[bisect_right(starts, found.start()) - 1]
            near = joined[max(found.start() - 25, 0) : found.end() + 35]
            at = line + text.count("\n", 0, word.start())
            instead = INSTEAD[(found.lastindex or 1) - 1]
            yield f"{path.relative_to(ROOT)}:{at}: {found[0]!r} -> {instead}   ({near})"


def found_under(*folders: str) -> list[str]:
    """List the banned words of the files that git knows, or would, in these folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    paths = sorted({ROOT / name for name in listed.stdout.decode().split("\0") if name})
    looked_at = (path for path in paths if path.suffix in READERS and path.is_file())
    return [hit for path in looked_at if ".test." not in path.name for hit in hits(path)]


def room(hit: str) -> str:
    return max((name for name in ALLOWED if hit.startswith(name)), key=len, default="")


def test_words_are_those_of_the_field():
    found = found_under(*PAGES, *SOURCES)

    counts = Counter(room(hit) for hit in found)
    over = {name for name, count in counts.items() if count > ALLOWED.get(name, 0)}
    assert not over, "\n".join(hit for hit in found if room(hit) in over)


def found_in(texts: Iterator[Text]) -> list[int]:
    return [line for line, text in texts if PATTERN.search(" ".join(text.split()))]


def test_banned_words_are_found_where_they_are():
    page = "# Rows\n\nIt is read\nby nobody.\n\n- This is no\n  row.\n\n| `a` | What is in it |\n"
    code = '"""Give it.\n\nOf CSV text: so\nmany."""\nx = f"{1} is none"\n'

    assert found_in(page_texts(page)) == [3, 6, 9]
    assert found_in(python_texts(code)) == [3, 5]
    assert found_in(viewer_texts("<script>\nx = 'no picture'</script>\n<p>So many</p>")) == [2, 3]


def test_code_names_questions_and_ordinary_words_are_not_banned():
    page = "# What it is\n\n`nobody` [x](pictures.md)\n\n```\nafar\n```\n\nThere is no row."
    code = 'x = "picture"  # a picture\ny = "it is no longer"\n"""\n>>> "is none"\n"""'

    assert found_in(page_texts(page)) == []
    assert found_in(python_texts(code)) == []
    assert found_in(viewer_texts("// the picture\nx = 'picture'")) == []


if __name__ == "__main__":
    listed = found_under(*(sys.argv[1:] or (*PAGES, *SOURCES)))
    print(*listed, *Counter(room(hit) for hit in listed).items(), sep="\n")  # noqa: T201 a script's output

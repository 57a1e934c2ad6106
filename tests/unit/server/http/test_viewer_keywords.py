"""The viewer colours the words that the grammar has; keywords.json holds them."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

KEYWORDS = Path(__file__).parents[4] / "viewer/src/query/keywords.json"
CONSTANTS = {"NULL", "TRUE", "FALSE"}


def test_the_viewers_keywords_are_the_grammars() -> None:
    grammar = resources.files("tensorlake_query.syntax").joinpath("tql.lark").read_text()
    words = {
        word.upper() for word in re.findall(r"^\w+\.2: /\(\?a:([a-z]+)\)", grammar, re.MULTILINE)
    }

    written = json.loads(KEYWORDS.read_text())

    assert words, "the grammar writes its keywords otherwise now: change the pattern above"
    assert written == {"keywords": sorted(words - CONSTANTS), "constants": sorted(CONSTANTS)}

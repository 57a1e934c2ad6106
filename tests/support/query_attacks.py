"""The worst that queries can ask for, asked in a process of its own that watches its memory.

    python tests/support/query_attacks.py (sdk | server) (few | all) CEILING FOLDER

Prints JSON: for each query how far the process rose above what it had (`peak`, bytes), and what it
was told (`told`; "" where the query has an answer).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import tensorlake as tl
from tensorlake.dataset import rowset_of

ROWS = 4000
BOXES = 20_000
TIMEOUT_S = 20.0
PAGE_ROWS = 500
REQUEST_LENGTH = 16_384


def make(folder: Path) -> None:
    """Write ``many``, of small samples, ``large``, of a few large ones, and ``texts``."""
    random = np.random.default_rng(0)
    many = tl.create(
        str(folder / "many"),
        {"x": "int64", "y": "float64", "t": tl.Text(), "r": tl.Array("float32", (None,))},
    )
    many.extend(
        {
            "x": np.arange(ROWS),
            "y": random.random(ROWS),
            "t": [f"a text {row} " * 5 for row in range(ROWS)],
            "r": [np.ones(row % 50, np.float32) for row in range(ROWS)],
        }
    )
    many.commit("many")
    large = tl.create(
        str(folder / "large"),
        {
            "boxes": tl.BBox(),
            "d": tl.Text(),
            "m": tl.Array("uint8", (None, None)),
            "r": tl.Array("float32", (None,)),
            "j": tl.Json(),
        },
    )
    boxes = random.random((BOXES, 4), dtype=np.float32)
    large.extend(
        {
            "boxes": [boxes, boxes[:9]],
            "d": ["word, " * 200_000, "a"],
            "m": [np.zeros((4000, 4000), np.uint8), np.zeros((2, 2), np.uint8)],
            "r": [np.ones(300_000, np.float32), np.ones(2, np.float32)],
            "j": [[0] * 300_000, {}],
        }
    )
    large.commit("large")
    texts = tl.create(str(folder / "texts"), {"d": tl.Text(), "m": tl.Array("uint8", (None, None))})
    texts.extend(
        {
            "d": ["lorem ipsum " * 5000] * 600,
            "m": [np.zeros((250, 250), np.uint8)] * 600,
        }
    )
    texts.commit("texts")


def nested(function: str, times: int) -> str:
    return f"{function}(" * times + "t" + ", 'a', 'aaaa')" * times


def halves(text: str, times: int) -> str:
    for _ in range(times):
        text = f"({text} || {text})"
    return text


def doubled(text: str, times: int) -> str:
    tables = [f"a0 AS (SELECT {text} AS t)"]
    tables += [f"a{n + 1} AS (SELECT t || t AS t FROM a{n})" for n in range(times)]
    return f"WITH {', '.join(tables)} SELECT LENGTH(t) AS n FROM a{times}"


ARMS = " ".join(f"WHEN x = {n} THEN 'a{n}'" for n in range(3000))
FEW = [
    ("many", "SAMPLE BY x + 1 LIMIT 1000000000"),
    ("many", f"SELECT {nested('REPLACE', 12)} AS z"),
    ("many", f"WHERE LENGTH({nested('REPLACE', 12)}) > 5"),
    ("many", doubled("t", 30)),
    ("large", "SELECT IOU(boxes, boxes) AS z"),
    ("large", "WHERE ANY(IOU(boxes, boxes) > 0.5)"),
    ("large", "WHERE ANY(boxes[:, 0:1] > boxes[0:20000, 0])"),
    ("large", "WHERE MAXSIM(boxes, boxes) > 0"),
    ("large", "WHERE ANY(POLYGON_CONTAINS(boxes[:, :2], boxes[:, 2:]))"),
    ("large", "WHERE LENGTH(UNIQUE(m)) > 0"),
    ("large", "WHERE LENGTH(NONZERO(m = 0)) > 0"),
    ("large", "WHERE ANY((m / 3) * (m / 5) + SQRT(m) > 1000)"),
    ("large", "WHERE MATCH(d || d || d || d || d || d || d || d || d || d, 'word')"),
    ("large", "WHERE LENGTH(SPLIT(d, ',')) > 0"),
    ("large", "UNGROUP BY r"),
    ("large", "SELECT LENGTH(d) AS z FROM (SELECT d, r UNGROUP BY r) LIMIT 5000"),
    ("large", "WHERE j[0] = 1 OR CAST(j AS TEXT) = 'a'"),
    ("many", "SELECT HISTOGRAM(y, 100000) AS z GROUP BY x"),
    ("many", "SELECT HISTOGRAM(y, 100000) OVER (PARTITION BY x % 3) AS z"),
    ("many", "SELECT a.x FROM this AS a CROSS JOIN this AS b"),
    ("many", "SELECT COUNT(*) AS n FROM this AS a, this AS b, this AS c"),
    ("many", "SELECT a.x FROM this AS a JOIN this AS b ON a.x % 2 = b.x % 2"),
    ("many", "SELECT a.x FROM this AS a FULL JOIN this AS b ON a.x <= b.x"),
    ("many", "WHERE x IN (SELECT a.x + b.x FROM this AS a CROSS JOIN this AS b)"),
    ("many", "EXPAND BY 1000000000 1000000000 OVERLAP true"),
    ("many", "WHERE t IN ('b'" + ", NULL" * 2000 + ")"),
    ("many", "SELECT [" + ", ".join(["1"] * 4000) + "] AS z LIMIT 100"),
    ("texts", "SELECT m GROUP BY LENGTH(d)"),
    ("texts", "SELECT d || d AS k, COUNT(*) AS n GROUP BY d || d"),
    ("texts", "ORDER BY d || CAST(ROW_NUMBER() AS TEXT)"),
    ("texts", "SELECT LAG(d || d || d || d) OVER (ORDER BY LENGTH(d)) AS z"),
    ("texts", "WHERE ANY(m > 3)"),
]
MORE = [
    ("many", "WHERE LENGTH(SPLIT(REPLACE(t, 't', '" + "a," * 5000 + "'), ',')) > 9"),
    ("many", "WHERE t IN ('b'" + ", NULL" * 40_000 + ")"),
    ("many", f"WHERE CASE {ARMS} END = 'a'"),
    ("many", "SELECT r FROM (SELECT a.r AS r FROM this AS a, this AS b LIMIT 999999) UNGROUP BY r"),
    ("many", f"SELECT {halves('t', 10)} AS z"),
    ("large", "SELECT LENGTH(d || d) AS z FROM (SELECT d, r UNGROUP BY r)"),
    ("large", "WHERE IOU(m = 0, m = 1) > 0.5"),
    ("large", "WHERE UPPER(d || d || d || d || d || d || d || d || d || d || d || d) = 'a'"),
    ("texts", "SELECT DISTINCT d || CAST(ROW_NUMBER() AS TEXT)"),
    ("texts", "SELECT d UNION SELECT d || CAST(ROW_NUMBER() AS TEXT)"),
    ("texts", "WHERE d IN (SELECT d || CAST(ROW_NUMBER() AS TEXT))"),
    ("texts", "SELECT FIRST(m) OVER (ORDER BY LENGTH(d)) AS z"),
    ("texts", "WHERE d LIKE '%zzz%' OR ANY(m / 3 > 2)"),
]  # fmt: skip

Ask = Callable[[str, str], str]


def nbytes(name: str) -> int:
    """A size that Linux knows of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) << 10


@contextmanager
def by_sdk(folder: Path, ceiling: int) -> Iterator[Ask]:
    def ask(dataset: str, text: str) -> str:
        try:
            limits = {"max_memory": ceiling, "timeout": TIMEOUT_S}
            view = tl.open(str(folder / dataset)).query(text, **limits)
            for name in rowset_of(view).computed:
                view[:PAGE_ROWS][name][:]
        except tl.QueryLimitError as error:
            return str(error)
        return ""

    yield ask


@contextmanager
def by_server(folder: Path, ceiling: int) -> Iterator[Ask]:
    import httpx

    from tensorlake_server import Settings, create_app
    from tests.support.serving import listening

    settings = Settings(
        url=str(folder),
        public_read=True,
        max_query_memory_nbytes=ceiling,
        max_query_s=TIMEOUT_S,
        views_nbytes=8 << 20,
    )
    with listening(create_app(settings)) as address, httpx.Client(base_url=address) as client:

        def ask(dataset: str, text: str) -> str:
            answer = client.post(
                f"/v1/datasets/{dataset}/query",
                json={"tql": text, "limit": PAGE_ROWS},
                timeout=4 * TIMEOUT_S,
            )
            found = answer.json()
            if answer.status_code == httpx.codes.OK:
                return ""
            assert found["code"] == "query-limit", found
            return str(found["detail"])

        yield ask


def main(way: str, which: str, ceiling: int, folder: Path) -> None:
    warnings.simplefilter("ignore")
    make(folder)
    found: dict[str, dict[str, object]] = {}
    with (by_sdk if way == "sdk" else by_server)(folder, ceiling) as ask:
        for dataset, text in FEW if which == "few" else FEW + MORE:
            if way == "server" and len(text) > REQUEST_LENGTH:
                continue  # refused unread
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            before = nbytes("VmRSS")
            told = ask(dataset, text)
            found[f"{len(found)}: {text:.80}"] = {"peak": nbytes("VmHWM") - before, "told": told}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))

"""The first query of a process: what it imports counts as its time, so it is only what it needs."""

import subprocess
import sys

OPEN = """
import sys
import numpy as np
import tensorlake as tl

ds = tl.create("memory://first-query", {"x": "int64", "t": tl.Text()})
ds.extend({"x": np.arange(200_000), "t": [f"text {n % 5000}" for n in range(200_000)]})
ds.commit("first")
"""


def printed(code):
    done = subprocess.run(
        [sys.executable, "-c", OPEN + code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_query_imports_neither_pandas_nor_the_functions_of_runs():
    code = """
print(len(ds.query("SELECT t, COUNT(*) AS n GROUP BY t", max_memory="1GiB")))
print(len(ds.query("WHERE CONTAINS(t, '77')")), len(ds.query("SELECT DISTINCT t ORDER BY t")))
print({"pandas", "tensorlake.dataset.runs.functions"} & set(sys.modules))
"""

    *counts, imported = printed(code)

    assert counts == ["5000", str(sum("77" in str(n) for n in range(5000)) * 40), "5000"]
    assert imported == "set()"

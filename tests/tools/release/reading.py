"""Read every dataset below a folder, and print what was read as JSON: a program of its own.

`python reading.py FOLDER [write]` runs with the code of any release on its path, so it uses names
of 0.1.0 alone. A value is a digest of rows, or the class and first line of an error; with
``write``, a row of each dataset is deleted, and the change committed.
"""

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "golden"))

from plain import digest, plain

import tensorlake as tl

MAX_ROWS = 60


def said(error):
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__module__.split('.')[0]}.{type(error).__name__}: {first}"


def rows_of(tensor, count):
    return digest([plain(tensor[row]) for row in range(min(count, MAX_ROWS))])


def read(folder, *, is_written):
    try:
        ds = tl.open(str(folder))
    except Exception as error:  # noqa: BLE001 - any other than ours is a finding
        return said(error)
    found = {"rows": str(len(ds))}
    for name in ds.tensors:
        try:
            found[name] = rows_of(ds[name], len(ds))
        except Exception as error:  # noqa: BLE001 - as above
            found[name] = said(error)
    if is_written:
        try:
            with ds.transaction("one row less"):
                ds.delete([0])
            found["write"] = "committed"
        except Exception as error:  # noqa: BLE001 - as above
            found["write"] = said(error)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    places = sorted(one.parent for one in Path(sys.argv[1]).glob("*/tensorlake.json"))
    found = {one.name: read(one, is_written="write" in sys.argv[2:]) for one in places}
    sys.stdout.write(json.dumps(found))

"""What a wheel has: the viewer, the grammar and the sample data; no tests, and few bytes."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

__all__ = ["MAX_NBYTES", "contents"]

MAX_NBYTES = 12 << 20  # of the whole wheel: twice what it is
DATA_MAX_NBYTES = 5 << 20  # of the sample data: issue 31
NEEDED = {  # pattern of one name -> what to do where there is none
    r"tensorlake/py\.typed": "restore the file",
    r"tensorlake_query/syntax/tql\.lark": "restore the file",
    r"tensorlake_query/syntax/tql\.lark-.+": "mend the hook query/build_grammar.py",
    r"tensorlake_server/static/index\.html": "run make viewer, with Node.js",
    r"tensorlake_server/static/assets/index-.+\.js\.br": "run make viewer, with Node.js",
    r"tensorlake_server/static/assets/index-.+\.js\.gz": "run make viewer, with Node.js",
    r"[^/]+\.dist-info/licenses/LICENSE": "name the file in license-files",
    r"tensorlake/.*data/.*README\.md": "put the licences of the sample data beside them",
}
ROOMS = ("tensorlake", "tensorlake_query", "tensorlake_server")
UNWANTED = re.compile(r"(^|/)(tests?|node_modules|__pycache__)/|\.pyc$|\.map$|(^|/)\.[^/]+$")


def contents(wheel: Path) -> list[str]:
    """Return a line for each thing that a wheel lacks, or has and should not."""
    with ZipFile(wheel) as archive:
        sizes = {one.filename: one.compress_size for one in archive.infolist() if not one.is_dir()}
    problems = [
        f"the wheel has no {pattern}\n  {remedy}"
        for pattern, remedy in NEEDED.items()
        if not any(re.fullmatch(pattern, name) for name in sizes)
    ]
    problems += [
        f"the wheel has {name}\n  exclude it in [tool.hatch.build.targets.wheel]"
        for name in sizes
        if UNWANTED.search(name)
        or not (name.startswith(tuple(f"{one}/" for one in ROOMS)) or ".dist-info/" in name)
    ]
    data = sum(nbytes for name, nbytes in sizes.items() if re.match(r"tensorlake/.*data/", name))
    for what, nbytes, most in (
        ("the wheel", wheel.stat().st_size, MAX_NBYTES),
        ("its sample data", data, DATA_MAX_NBYTES),
    ):
        if nbytes > most:
            largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
            problems.append(
                f"{what}: {nbytes:,} bytes, more than {most:,}"
                f"\n  leave some of the largest files out: {', '.join(largest)}"
            )
    return problems

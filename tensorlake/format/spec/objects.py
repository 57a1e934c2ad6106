"""Which paths the format defines: what belongs to a dataset, at a place that may hold other files.

A deletion removes these and nothing else; a dataset is not made where others are. Every name that
any version has written is here, and the ones of scratch objects:

    tensorlake.json  copying.json  check.json  probe-<16 hex digits>  descriptor/<id>.json
    branches/<branch>/{<seq>.json, HEAD}  tags/<tag>.json  gc/<txid>.json
    packs/<xx>/<txid>-<n>.tlp
    forgotten/<id>{,-cleaned,-report}.json
    runs/<name>/{run.json, skip-….arrow, redacted-….parquet}
    runs/<name>/<attempt>/{segment,events,rows}-….{json,arrow,parquet}
"""

from __future__ import annotations

import re

from tensorlake.format.spec.spec import COPYING, DESCRIPTOR, PackId

__all__ = ["is_own_path"]

_NAME = r"[a-z0-9._-]+"  # as encode_name writes it
_OWN = re.compile(
    rf"{re.escape(DESCRIPTOR)}|{re.escape(COPYING)}|check\.json|probe-[0-9a-f]{{16}}"
    r"|descriptor/[0-9a-f]{32}\.json"
    rf"|branches/{_NAME}/(?:[0-9]{{10}}\.json|HEAD)"
    rf"|tags/{_NAME}\.json"
    r"|gc/[0-9a-f]{32}\.json"
    r"|forgotten/[0-9a-f]+(?:-cleaned|-report)?\.json"
    rf"|runs/{_NAME}/(?:run\.json|skip-[0-9a-f]+\.arrow|redacted-[0-9a-f]+\.parquet)"
    rf"|runs/{_NAME}/{_NAME}/(?:segment|events|rows)-[0-9]+(?:-[0-9]+)?\.(?:json|arrow|parquet)"
)


def is_own_path(path: str) -> bool:
    """Return whether the format defines an object with this path, relative to its dataset.

    >>> is_own_path("branches/main/0000000012.json"), is_own_path("NOTES.txt")
    (True, False)
    >>> is_own_path("tags/v1.json"), is_own_path("packs/other/tensorlake.json")
    (True, False)
    """
    return _OWN.fullmatch(path) is not None or PackId.from_path(path) is not None

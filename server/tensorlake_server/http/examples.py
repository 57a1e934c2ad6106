"""Examples of the OpenAPI document: a body of each operation that has one, and of each parameter.

They are requests of one dataset, which the first of them creates; sent in this order, each
succeeds. Tests send them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BODIES", "PARAMETERS"]

BODIES: Mapping[str, Any] = {
    "open_session": {"token": "tl_3f2a90c1_…"},
    "create_dataset": {
        "name": "pets",
        "schema": {
            "image": {"kind": "image", "codec": "jpeg", "nullable": True},
            "label": {"kind": "class_label", "names": ["cat", "dog"]},
            "score": "float32",
            "vector": {"kind": "embedding", "dim": 2},
        },
    },
    "commit_transaction": {
        "message": "two pets",
        "key": "import-7/1",
        "operations": [
            {
                "op": "append",
                "columns": {
                    "image": [None, None],
                    "label": ["cat", "dog"],
                    "score": [0.25, 0.75],
                    "vector": [[1.0, 0.0], [0.0, 1.0]],
                },
            }
        ],
    },
    "run_query": {"tql": "WHERE label = $label", "params": {"label": "dog"}, "limit": 10},
    "select_rows": {"steps": [{"tql": "WHERE score > 0.5"}]},
    "explain_query": {"tql": "WHERE score > 0.5 ORDER BY score DESC LIMIT 10"},
    "complete_query": {"tql": "WHERE sco", "cursor": 9},
    "search_rows": {"column": "vector", "query": [1.0, 0.0], "k": 1},
    "export_rows": {"format": "parquet", "steps": [{"tql": "WHERE score > 0.5"}]},
    "save_view": {"name": "dogs", "view": "the `view` of a query's result", "message": "for ana"},
    "read_thumbnails": {"tensor": "image", "rows": [0, 1], "size": 128},
    "stream_batches": {"columns": ["score"], "batch_size": 2, "shuffle": True, "seed": 1},
    "create_branch": {"name": "labels-ana"},
    "create_tag": {"name": "v1", "at": "main@1"},
    "merge": {"source": "labels-ana", "branch": "main"},
    "optimize": {"branch": "main"},
    "restore": {"restored": "main@1", "branch": "main"},
    "approve_flow": {"decision": True},
}
"""By operation id."""

PARAMETERS: Mapping[str, Any] = {
    "name": "pets",
    "tensor": "label",
    "other": "score",
    "row": 0,
    "version": "main@1",
    "branch": "labels-ana",
    "tag": "v1",
    "columns": "label,score",
    "limit": 10,
}

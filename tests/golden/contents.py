"""What the golden dataset of format version 1 was made from."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

import tensorlake as tl

# An 8 × 8 picture, as simplejpeg encoded it once: a picture's bytes never change.
JPEG = base64.b64decode(
    b"/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4R"
    b"DgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    b"FBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAIAAgDAREAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAA"
    b"AAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAk"
    b"M2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT"
    b"lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QA"
    b"HwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdh"
    b"cRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hp"
    b"anN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk"
    b"5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwDnvgb8Df8Aj3/0f07V9R4k+JPx++YYPB+R/9k="
)

SCHEMA: dict[str, Any] = {
    "image": tl.Image("jpeg", nullable=True),
    "label": tl.ClassLabel(["cat", "dog"]),
    "boxes": tl.BBox(format="xyxy", of="image"),
    "score": tl.Scalar("float32", nullable=True),
    "vector": tl.Embedding(128),
    "count": tl.Scalar("int64"),
    "note": tl.Text(),
    "meta": tl.Json(nullable=True),
    "blob": tl.Bytes(),
    "cube": tl.Array("uint8", (None, 2, None)),
    "flag": tl.Bool(),
}

BATCHES: list[dict[str, Any]] = [
    {
        "image": [JPEG, None, JPEG],
        "label": ["cat", "cat", "dog"],
        "boxes": [np.zeros((0, 4)), [[0, 1, 2, 3]], [[4, 5, 6, 7], [8, 9, 10, 11]]],
        "score": [0.5, None, float("nan")],
        "vector": np.arange(3 * 128, dtype=np.float32).reshape(3, 128),
        "count": [-(2**63), 0, 2**63 - 1],
        "note": ["", "größe", "雪" * 100],
        "meta": [{"a": [1, 2.5, None]}, None, "text"],
        "blob": [b"", b"\0\1", bytes(range(256))],
        "cube": [
            np.zeros((0, 2, 0), np.uint8),
            np.arange(4, dtype=np.uint8).reshape(1, 2, 2),
            np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
        ],
        "flag": [True, False, True],
    },
    {
        "image": [JPEG],
        "label": ["dog"],
        "boxes": [[[1, 1, 2, 2]]],
        "score": [1.0],
        "vector": np.ones((1, 128), np.float32),
        "count": [0],
        "note": ["small"],
        "meta": [{}],
        "blob": [b"x"],
        "cube": [np.full((1, 2, 1), 9, np.uint8)],
        "flag": [False],
    },
]

"""A small dataset in memory, and the program called as a shell would."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.cli import main

_numbers = count()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the program ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def run(capsys) -> Callable[..., Outcome]:
    def call(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, printed.out, printed.err)

    return call


@pytest.fixture
def pets() -> str:
    """URL of a dataset of three commits: rows, more rows, one label changed."""
    url = f"memory://cli-{next(_numbers)}/pets"
    pixels = np.zeros((2, 8, 6, 3), np.uint8)
    with tl.create(
        url,
        {
            "image": tl.Image(codec="png"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "score": "float32",
            "boxes": tl.BBox(format="xyxy", of="image"),
            "note": tl.Text(nullable=True),
        },
    ) as ds:
        ds.extend(
            {
                "image": list(pixels),
                "label": ["cat", "dog"],
                "score": [0.5, np.nan],
                "boxes": [[[0, 0, 2, 2]], []],
                "note": ["first", None],
            }
        )
        ds.commit("two pets")
        ds.append(
            {
                "image": pixels[0],
                "label": "cat",
                "score": 0.25,
                "boxes": [[1, 1, 4, 4], [0, 0, 1, 1]],
                "note": "third",
            }
        )
        ds.commit("one more")
        ds["label"][2] = "dog"
        ds.commit("a dog after all")
    return url

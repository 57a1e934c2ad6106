"""Write the golden dataset of classes with ids: ``python tests/golden/make_v1_classes.py FOLDER``.

Run once, when a class that was added got an id (docs/decisions/0013-a-class-has-an-id.md). Its
bytes are in the repository and are never made again: what they hold must be readable for ever.

    main   cat dog │ +owl +hen │ merge fix: +emu, owl and owl are one │ hen renamed drake │ merge
    fix            │ +emu +owl ┘                                      │ +yak, emu renamed ┘
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorlake as tl


def main(folder: Path) -> None:
    main = tl.create(str(folder), {"label": tl.ClassLabel(["cat", "dog"]), "row": "int32"})
    main.extend({"label": ["cat", "dog", "cat"], "row": [0, 1, 2]})
    main.commit("declared")
    fix = main.branch("fix")
    main["label"].add_names(["owl", "hen"])
    main.extend({"label": ["owl", "hen"], "row": [3, 4]})
    main.commit("owl and hen")
    fix["label"].add_names(["emu", "owl"])
    fix.extend({"label": ["emu", "owl", "dog"], "row": [5, 6, 7]})
    fix.commit("emu and owl")
    main.merge("fix")
    with main.transaction("a hen was a drake"):
        main["label"].rename("hen", "drake")
    fix["label"].add_names(["yak"])
    fix["label"].rename("emu", "rhea")
    fix.extend({"label": ["rhea", "yak"], "row": [8, 9]})
    fix.commit("yak; emu was a rhea")
    main.refresh()
    main.merge("fix")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The first half hour of a user: the tutorial's commands as printed, in an empty environment.

The blocks of the page are one session of a shell, from top to bottom: ``sh`` as it stands, the
commands of ``console``, and each ``python`` block as a program. A server answers until the end.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.page_data import lay_out_data

__all__ = ["PAGE", "followed", "script"]

PAGE = "docs/tutorial/half-an-hour.md"
LIMIT_S = 1800
SHOWN_LINES = 12
BLOCK = re.compile(r"^```(sh|console|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
INSTALLS = re.compile(r"python3 -m venv |pip install |tensorlake demo")
SERVE = """{command} >serve.log 2>&1 &
trap "kill $!" EXIT
timeout 60 bash -c 'until grep -q "Viewer at" serve.log; do sleep 0.2; done'
"""


def script(text: str, torch: Sequence[str] = (), *, installs: bool = True) -> str:
    """Return the session of a page as a script of bash.

    Args:
        text: The page.
        torch: What pip is asked for as soon as there is an environment.
        installs: Whether to install; otherwise these commands and the demo are left out.
    """
    lines = ["set -euxo pipefail"]
    for language, block in BLOCK.findall(text):
        if language == "python":
            lines.append(f"python - <<'BLOCK'\n{block}BLOCK")
            continue
        for line in block.splitlines():
            command = line if language == "sh" else line[2:] if line.startswith("$ ") else ""
            if not installs and INSTALLS.match(command):
                continue
            if command.startswith("tensorlake serve "):
                command = SERVE.format(command=command)
            lines.append(command)
            if torch and "bin/activate" in command:
                lines.append("pip install --quiet " + " ".join(torch))
    return "\n".join([*lines, ""])


def followed(root: Path, wheel: Path, folder: Path, torch: Sequence[str]) -> list[str]:
    """Follow the page of a checkout beside a wheel; return what failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lay_out_data(folder)
    shutil.copy(wheel, folder)
    text = (root / PAGE).read_text(encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ["bash", "-c", script(text, torch)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        cwd=folder,
        env=kept,
    )
    if done.returncode == 0:
        return []
    lines = (done.stdout + done.stderr).strip().splitlines()[-SHOWN_LINES:]
    return [
        "\n    ".join([f"{PAGE} cannot be followed:", *lines]) + "\n  mend the page, or the code"
    ]

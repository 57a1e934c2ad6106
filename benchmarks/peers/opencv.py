"""OpenCV, for the contenders that resize with it: in a folder of its own, made when first needed.

Tensorlake uses OpenCV where it finds it and needs it nowhere, so it is not a dependency, not even
of the tests. Where it does not install, its contenders have a line with the reason and no figure.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from benchmarks.harness.data import REPOSITORY

__all__ = ["find_opencv", "install_opencv"]

FOLDER = REPOSITORY / ".benchmarks" / "peers" / "opencv"
PACKAGE = "opencv-python-headless"
INSTALL_TIMEOUT_S = 600


def install_opencv() -> None:
    """Install it, unless it is there or was found wanting."""
    if find_opencv() or FOLDER.exists():
        return
    FOLDER.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    command = [*pip, "--no-deps", "--target", str(FOLDER), PACKAGE]  # NumPy is the environment's
    subprocess.run(command, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False)


def find_opencv() -> bool:
    """Let ``import cv2`` find it; tell whether it does."""
    if find_spec("cv2") is None and str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return find_spec("cv2") is not None

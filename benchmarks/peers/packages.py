"""Packages that a contender imports in our own environment, each in a folder made when needed.

OpenCV is used by tensorlake where it is found and needed nowhere; torchcodec and decord decode the
videos of ``media_video``. None is a dependency, not even of the tests. Where one does not install,
or load, its contenders have a line with the reason and no figure.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness.data import REPOSITORY

__all__ = ["OPENCV", "Package"]

INSTALL_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Package:
    """A package, installed without what it requires: NumPy and torch are the environment's."""

    requirement: str

    @property
    def folder(self) -> Path:
        """Where it is installed."""
        return REPOSITORY / ".benchmarks" / "peers" / self.requirement.partition("==")[0]

    def install(self) -> None:
        """Install it, unless that was done, or tried."""
        if self.folder.exists():
            return
        self.folder.mkdir(parents=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        command = [*pip, "--no-deps", "--target", str(self.folder), self.requirement]
        subprocess.run(command, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False)

    def find(self, module: str) -> str:
        """Let a module be imported; return why it is not, or nothing."""
        name = module.partition(".")[0]
        if find_spec(name) is None and str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        if find_spec(name) is None:
            return f"{name} does not install"
        try:
            import_module(module)
        except (ImportError, OSError, RuntimeError) as error:  # torchcodec without FFmpeg
            return f"{name} does not load: {str(error).strip().splitlines()[0]}"
        return ""


OPENCV = Package("opencv-python-headless")

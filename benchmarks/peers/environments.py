"""Virtual environments of peers: each beside ours, made when it is first needed.

An environment that is not whole, since it was made for less or its making was ended, is made whole.
One that cannot be made leaves a file with the reason, and is not tried again until that is removed.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.data import REPOSITORY

__all__ = ["FOLDER", "Environment"]

FOLDER = REPOSITORY / ".benchmarks" / "peers"
COMMAND_LIMIT_S = 600
SHOWN_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages that pip installs into their own folder."""

    key: str
    requirements: tuple[str, ...]
    bare: tuple[str, ...] = ()
    """Installed without what they require."""
    unwanted: tuple[str, ...] = ()
    """Removed again, where another requires them."""

    @property
    def python(self) -> Path:
        """Where its Python is."""
        return FOLDER / self.key / "bin" / "python"

    @property
    def refusal(self) -> str:
        """Why it could not be made; empty if it was not tried or succeeded."""
        return self._failure.read_text(encoding="utf-8").strip() if self._failure.exists() else ""

    def make(self) -> None:
        """Make it, unless it is whole or was refused."""
        if self.refusal or self._is_whole():
            return
        print(f"installing {self.key}", file=sys.stderr)
        if not self.python.exists():
            venv.create(FOLDER / self.key, with_pip=True)
        for words in self._commands():
            if why := self._pip(words):
                self._failure.write_text(f"does not install: {why}", encoding="utf-8")
                return
        self._stamp.write_text(self._wanted, encoding="utf-8")

    def _commands(self) -> list[list[str]]:
        install = ["install", "--quiet", "--only-binary=:all:"]
        commands = [[*install, *self.requirements]]
        if self.bare:
            commands.append([*install, "--no-deps", *self.bare])
        if self.unwanted:
            commands.append(["uninstall", "--quiet", "--yes", *self.unwanted])
        return commands

    def _pip(self, words: list[str]) -> str:
        command = [str(self.python), "-m", "pip", *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"not in {COMMAND_LIMIT_S} s"
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        return lines[-1][:SHOWN_LETTERS] if done.returncode else ""

    def _is_whole(self) -> bool:
        return self._stamp.exists() and self._stamp.read_text(encoding="utf-8") == self._wanted

    @property
    def _wanted(self) -> str:
        return "\n".join((*self.requirements, *self.bare))

    @property
    def _stamp(self) -> Path:
        return FOLDER / self.key / "installed.txt"

    @property
    def _failure(self) -> Path:
        return FOLDER / f"{self.key}.txt"

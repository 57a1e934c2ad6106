"""Other libraries: what is here needs them, and is collected only where extras are asked for."""

from __future__ import annotations


def pytest_ignore_collect(config):
    return "not extras" in config.option.markexpr or None

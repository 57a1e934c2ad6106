"""Transforms of other libraries, called with a row and returning a row."""

from tensorlake.loader.decode.libraries.adapt import adapted

__all__ = ["adapted"]

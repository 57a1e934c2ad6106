"""Passes: from a loader's parts and position to the object that makes its batches."""

from tensorlake.loader.engine.passes.open_pass import open_pass
from tensorlake.loader.engine.passes.opening import Opening
from tensorlake.loader.engine.passes.remote import check_remote

__all__ = ["Opening", "check_remote", "open_pass"]

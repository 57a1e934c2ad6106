"""The HTTP server: datasets of one lake over REST, and the viewer.

Started by ``tensorlake serve URL``, which is ``python -m tensorlake_server URL``.
"""

from __future__ import annotations

from tensorlake_server.app.app import create_app
from tensorlake_server.settings.settings import Settings

__all__ = ["Settings", "create_app"]

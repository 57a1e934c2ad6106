"""Exit 0 when this container's server can read its lake: what HEALTHCHECK runs."""

import os
import sys
from http.client import HTTPException
from urllib.error import URLError
from urllib.request import urlopen

TIMEOUT_S = 5


def main() -> int:
    """Ask the server, and return the exit code."""
    port = os.environ.get("TENSORLAKE_SERVE_PORT", "8300")
    try:
        urlopen(f"http://127.0.0.1:{port}/readyz", timeout=TIMEOUT_S).close()
    except (URLError, HTTPException, OSError) as error:
        sys.stderr.write(f"not ready: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

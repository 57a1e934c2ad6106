"""What a server is started with, checked once: parsed here, trusted everywhere else.

A server on a loopback address is private: a random token, in the fragment of the link that it
prints, lets a browser in. On any other address it refuses to start unless ``public_read`` says that
everybody who reaches it may read.
"""

from __future__ import annotations

import ipaddress
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["STATIC", "Settings"]

STATIC = Path(__file__).parent / "static"
TOKEN_NBYTES = 24
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server serves one lake.

    Attributes:
        url: A dataset, or a folder of datasets.
        public_read: Everybody who reaches the address may read; needed off loopback.
        token: What lets a browser or a client in when the server is not public.
        signing_key: Signs the ids of views; replicas of one lake share it.
        storage_options: Credentials and such, as ``tl.open`` takes them.
        static: Folder of the built viewer.
        max_body_nbytes: Longest request body.
        max_page_rows: Most rows in one page.
        thumbnails_nbytes: How much of the thumbnails drawn last is kept.
    """

    url: str
    host: str = "127.0.0.1"
    port: int = 8300
    public_read: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_NBYTES), repr=False)
    signing_key: bytes = field(
        default_factory=lambda: secrets.token_bytes(TOKEN_NBYTES), repr=False
    )
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    static: Path = STATIC
    max_body_nbytes: int = 1 << 20
    max_page_rows: int = 1000
    thumbnails_nbytes: int = 128 << 20

    def __post_init__(self) -> None:
        if not self.is_loopback and not self.public_read:
            raise InvalidInputError(
                f"refusing to serve {self.url!r} on {self.host!r}, where others can reach it"
                "\nstay on --host 127.0.0.1 and tunnel (ssh -L 8300:127.0.0.1:8300 host),"
                " or let everybody read: --public-read",
                host=self.host,
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False  # another name: where it leads is not for us to guess

    @property
    def served_hosts(self) -> frozenset[str] | None:
        """Names that a request's ``Host`` may have; None for any (a public server)."""
        return LOOPBACK_NAMES | {self.host} if self.is_loopback else None

    @property
    def needs_token(self) -> bool:
        """Whether requests must show the token."""
        return not self.public_read

    def link(self, dataset: str | None = None) -> str:
        """Return the address to open; the token is in its fragment, which is never sent."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = "" if dataset is None else dataset.replace("/", "~")
        fragment = f"#token={self.token}" if self.needs_token else ""
        return f"http://{host}:{self.port}/{path}{fragment}"

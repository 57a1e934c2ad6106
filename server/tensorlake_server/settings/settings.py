"""The settings of a server, checked once: parsed here, trusted everywhere else.

A server on a loopback address is private: a random token, in the fragment of the link that it
prints, lets a browser in. On any other address it refuses to start unless it has a token file
(``auth``), or ``public_read`` lets every client read. No client writes without
``write``.
"""

from __future__ import annotations

import ipaddress
import math
import os
import secrets
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tensorlake.dataset import QueryLimits
from tensorlake.errors import InvalidInputError
from tensorlake.storage import part_of_name
from tensorlake_server.auth.tokens import read_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["STATIC", "Settings"]

STATIC = Path(__file__).parents[1] / "static"
TOKEN_NBYTES = 24
PORT_MAX = 65_535
SIGNING = ("s3://", "gs://", "az://")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a server serves one lake.

    Attributes:
        url: A dataset, or a folder of datasets.
        workers: Processes that serve together, each with the limits below.
        public_read: Everybody who reaches the address may read.
        auth: The token file (auth/tokens.py); off loopback this, ``oidc`` or ``public_read`` is
            needed.
        oidc: The issuer of an OpenID provider, whose tokens let one in (auth/oidc.py).
        oidc_audience: The ``aud`` of those that are meant for this server.
        oidc_claim: The claim that has their scopes or groups.
        oidc_groups: A file with the scopes of each group.
        write: Whether those whose scopes allow it may write.
        presign: Whether packs are read by signed links, past the server.
        follow_links: Whether files that tensors of links name are read: all who write to the lake
            may then read what the server can, as files of its machine and hosts of its network.
        audit_log: Where to note who did what, when.
        audit_nbytes: How long its file may become before another is begun.
        audit_files: How many of the earlier files are kept; 0: all.
        token: The browser's token on a loopback address, in the link that is printed.
        signing_key: Signs the ids of views; replicas of one lake share it.
        storage_options: Credentials and such, as ``tl.open`` takes them.
        static: Folder of the built viewer.
        is_framed: Whether notebooks of this machine may show the page in a frame.
        group_wait_s: How long an append waits for others, to be published with them by one commit.
        max_body_nbytes: Longest request body that asks for something.
        max_write_nbytes: Longest one that brings rows or an object; it is held in memory.
        max_page_rows: Most rows in one page.
        max_page_nbytes: Most bytes of samples in one, but for a single row.
        max_held_nbytes: Most bytes of bodies and answers of all requests under way; a token may
            hold half of them, and all who have none together.
        max_connections: Most connections open at once; one more ends an idle one.
        max_requests_per_s: Most requests a second of each token; of all who have none together.
        max_streams: Most streams of events open at once.
        max_streams_each: Most of them for each token; for all who have none together.
        max_batch_streams: Most streams of batches open at once; each decodes.
        max_batch_streams_each: Most of them for each token; for all who have none together.
        max_batch_nbytes: Largest batch that is decoded for a client.
        header_patience_s: How long a client may take to send its headers.
        body_patience_s: How long to send the body, and a second for each ``min_nbytes_per_s``.
        answer_patience_s: How long it may read nothing of its answer, or less than that.
        min_nbytes_per_s: Slower clients are disconnected, in sending a body and in reading.
        stream_patience_s: How long a client of a stream may take nothing.
        drain_s: How long requests under way may take after a request to stop.
        max_query_s: How long a query may run.
        flows: The database of flows, in which jobs are kept: the path of an SQLite file, or
            ``postgresql://…``. None: no request is answered later.
        max_job_s: How long a query may run that is answered later.
        max_query_nbytes: How much of samples a query may read.
        max_query_memory_nbytes: How much memory a query may hold, and each reading of its result.
        max_queries: Most queries that run at once.
        max_queries_each: Most of them for each token; for all who have none together.
        views_nbytes: How much memory the results of queries may hold that are kept.
        derived: URL of a folder for copies of saved views, which replicas share. None: a temporary
            one.
        derived_nbytes: Most bytes of copies of saved views, which are made for who asks for one.
        selections: A folder for rows that clients selected, so that their ids outlive a restart;
            replicas share it. None: a temporary one.
        selections_nbytes: Most bytes of them.
        exports: A folder for files that clients export; replicas share it. None: none are made.
        exports_nbytes: Most bytes of them; those of one token have half of it.
        thumbnails_nbytes: How much of the thumbnails drawn last is kept.
    """

    url: str
    host: str = "127.0.0.1"
    port: int = 8300
    workers: int = 1
    public_read: bool = False
    auth: Path | None = None
    oidc: str | None = None
    oidc_audience: str | None = None
    oidc_claim: str = "scope"
    oidc_groups: Path | None = None
    write: bool = False
    presign: bool = False
    follow_links: bool = False
    audit_log: Path | None = None
    audit_nbytes: int = 256 << 20
    audit_files: int = 16
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_NBYTES), repr=False)
    signing_key: bytes = field(
        default_factory=lambda: secrets.token_bytes(TOKEN_NBYTES), repr=False
    )
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    static: Path = STATIC
    is_framed: bool = False
    group_wait_s: float = 0.02
    max_body_nbytes: int = 1 << 20
    max_write_nbytes: int = 256 << 20
    max_page_rows: int = 1000
    max_page_nbytes: int = 64 << 20
    max_held_nbytes: int = 1 << 30
    max_connections: int = 800  # below the 1,024 files that most systems let a process open
    max_requests_per_s: float = 1000.0
    max_streams: int = 500
    max_streams_each: int = 100
    max_batch_streams: int = 32
    max_batch_streams_each: int = 16
    max_batch_nbytes: int = 256 << 20
    header_patience_s: float = 10.0
    body_patience_s: float = 20.0
    answer_patience_s: float = 30.0
    min_nbytes_per_s: float = 4096.0
    stream_patience_s: float = 300.0
    drain_s: float = 10.0
    max_query_s: float = 60.0
    flows: str | None = field(default=None, repr=False)
    max_job_s: float = 3600.0
    max_query_nbytes: int = 16 << 30
    max_query_memory_nbytes: int = 1 << 30
    max_queries: int = 16
    max_queries_each: int = 8
    views_nbytes: int = 256 << 20
    derived: str | None = None
    derived_nbytes: int = 8 << 30
    selections: Path | None = None
    selections_nbytes: int = 64 << 20
    exports: Path | None = None
    exports_nbytes: int = 64 << 30
    thumbnails_nbytes: int = 128 << 20

    def __post_init__(self) -> None:
        self._check_numbers()
        if not self.is_loopback and not self.public_read and not self.knows_people:
            raise InvalidInputError(
                f"refusing to serve {self.url!r} on {self.host!r}, where others can reach it"
                "\nstay on --host 127.0.0.1 and tunnel (ssh -L 8300:127.0.0.1:8300 host),"
                " let in those who have a token: --auth FILE or --oidc ISSUER,"
                " or let everybody read: --public-read",
                host=self.host,
            )
        if self.write and not self.is_loopback and not self.knows_people:
            raise InvalidInputError(
                f"refusing to serve {self.url!r} for writing to everybody who reaches"
                f" {self.host!r}\nsay who may write: --auth FILE or --oidc ISSUER",
                host=self.host,
            )
        if self.presign and not self.url.startswith(SIGNING):
            raise InvalidInputError(
                f"refusing --presign: {self.url!r} is not a store that signs links"
                f"\nleave it out, or serve one of {', '.join(SIGNING)}",
                url=self.url,
            )
        if self.auth is not None:
            read_tokens(self.auth)
        self._check_issuer()
        self._check_flows()
        self._check_outside("derived", self.derived, "copies of saved views")
        self._check_outside("exports", self.exports, "exports")

    def _check_outside(self, name: str, place: str | Path | None, what: str) -> None:
        """Refuse files of the server in the lake, where they would be clients' to change."""
        if place is None:
            return
        lake, files = _place_of(self.url), _place_of(str(place))
        if lake.startswith(files) or files.startswith(lake):
            raise InvalidInputError(
                f"--{name}: {what} must lie outside the lake that is served, and not"
                " around it\ngive a folder or bucket of their own, beside the lake",
                argument=name,
            )

    def _check_flows(self) -> None:
        """Refuse a database of flows that cannot be opened, or not by several processes."""
        if self.flows is None:
            return
        from tensorlake.workloads import flows

        url = flows.Jobs.url_of(self.flows)
        if self.workers > 1 and url.startswith("sqlite:"):
            raise InvalidInputError(
                f"{self.workers} workers cannot share the SQLite file {self.flows!r}: it is of one"
                " process\ngive PostgreSQL: --flows postgresql://user@host/name; or --workers 1",
                workers=self.workers,
            )

    def _check_issuer(self) -> None:
        """Refuse an issuer without an audience: its tokens for other services would let one in."""
        if self.oidc is not None:
            from tensorlake_server.auth.oidc import check_issuer_url, read_groups

            check_issuer_url(self.oidc)
            if self.oidc_groups is not None:
                read_groups(self.oidc_groups)
        if bool(self.oidc) != bool(self.oidc_audience) or (self.oidc_groups and not self.oidc):
            raise InvalidInputError(
                "an issuer of tokens needs an audience, and an audience or groups an issuer"
                "\ngive both: --oidc https://id.example.org --oidc-audience tensorlake"
            )

    def _check_numbers(self) -> None:
        """Refuse numbers that mean nothing: a patience of no time, a port that there is not."""
        for one in fields(self):
            value: object = getattr(self, one.name)
            if isinstance(value, float) and not (0 < value < math.inf):
                raise InvalidInputError(
                    f"{one.name} must be > 0, got {value}\ngive a number above 0", actual=value
                )
            if isinstance(value, int) and value < 0:
                raise InvalidInputError(
                    f"{one.name} = {value} is less than none\ngive 0 or more", actual=value
                )
        if self.workers < 1:
            raise InvalidInputError("workers = 0 serves nothing\ngive 1 or more", actual=0)
        if self.workers > 1 and not hasattr(os, "fork"):
            raise InvalidInputError(
                f"workers = {self.workers} needs os.fork, which {sys.platform} does not have"
                "\ngive 1: a process serves many clients at once",
                actual=self.workers,
            )
        if self.port > PORT_MAX:
            raise InvalidInputError(
                f"port must be <= {PORT_MAX}, got {self.port}\n--port 0 takes a free one",
                actual=self.port,
            )

    def query_limits(self, cancelled: Callable[[], bool] | None = None) -> QueryLimits:
        """When a query of a client ends, and what it may hold."""
        return QueryLimits(
            self.max_query_s,
            self.max_query_nbytes,
            cancelled,
            self.max_query_memory_nbytes,
            "or ask who runs the server for more: max_query_memory_nbytes",
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
    def knows_people(self) -> bool:
        """Whether tokens of people and programs let them in."""
        return self.auth is not None or self.oidc is not None

    @property
    def has_link(self) -> bool:
        """Whether the link that is printed lets its reader in."""
        return self.is_loopback

    def link(self, dataset: str | None = None) -> str:
        """Return the address to open; the token is in its fragment, which is never sent."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        path = "" if dataset is None else part_of_name(dataset)
        is_needed = self.has_link and (self.write or not self.public_read)
        fragment = f"#token={self.token}" if is_needed else ""
        return f"http://{host}:{self.port}/{path}{fragment}"


def _place_of(url: str) -> str:
    """Return a URL, or a path without links and dots, that ends with a slash."""
    url = url.removeprefix("file://")
    place = url.partition("?")[0] if "://" in url else os.path.realpath(url)
    return place.rstrip("/") + "/"

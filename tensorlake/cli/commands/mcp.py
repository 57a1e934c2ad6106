"""``tensorlake mcp URL``: offer a lake to a language model, by the Model Context Protocol.

The program talks over its standard input and output, as clients of the protocol start it; all of it
is in the file that needs the extra ``mcp``.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

from tensorlake import __version__
from tensorlake.cli.agent import NOTE, Agent
from tensorlake.cli.options import Url
from tensorlake.cli.terms import Terms
from tensorlake.errors import TensorlakeError, missing_extra

__all__ = ["mcp"]

INSTRUCTIONS = (
    "Read-only access to datasets of tensorlake: list them, describe one, query it with TQL"
    " (SQL-like: SELECT columns WHERE condition ORDER BY … LIMIT n; `this` is the dataset), show an"
    f" image of a row. {NOTE}"
)


def mcp(url: Url, *, terms: Terms) -> None:
    """Offer a lake or dataset to a language model: list, describe, query, show; nothing is written.

    Example: tensorlake mcp s3://bucket/lake
    """
    server(Agent(url, terms.options_for(url))).run("stdio")


def server(agent: Agent) -> Any:
    """Make the protocol's server over the tools.

    Raises:
        MissingExtraError: The extra ``mcp`` is not installed.
    """
    try:
        servers: Any = import_module("mcp.server.mcpserver")
        tool_error: Any = import_module("mcp.server.mcpserver.exceptions").ToolError
        types: Any = import_module("mcp.types")
    except ImportError as error:
        raise missing_extra("tensorlake mcp", "mcp") from error
    image: Any = servers.Image
    made = servers.MCPServer(
        "tensorlake", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
    )
    reads = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)

    def told(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except TensorlakeError as error:
                raise tool_error(str(error)) from error

        return called

    def show(dataset: str, tensor: str, row: int, version: str | None = None) -> Any:
        """Show an image of a row, at most 512 pixels wide and high."""
        return image(data=agent.show(dataset, tensor, row, version), format="png")

    for call in (agent.datasets, agent.describe, agent.query, show):
        made.tool(annotations=reads)(told(call))
    return made

"""A `Grid` of Flower's whose clients run in this process, one after the other.

Flower's own simulation needs Ray; its `Grid` is the interface between a ServerApp and whatever
carries its messages. Here they become bytes and are read again, by Flower's own code, so that what
arrives at the server is what was sent over the wire, and a client's state stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

RUN, SERVER, RAISED = 7, 1, 2  # the last: Flower's code of an error of a client


@dataclass
class InProcessGrid(Grid):
    """Nodes 1000, 1001, …: their ``partition-id`` counts from 0.

    Attributes:
        app: What each node runs.
        nodes: Number of nodes.
        answers: Whether a node answers a message: False is a client that went away.
        arrived: Bytes of each message that came back, in order.
        asked: The node of each message that was sent.
    """

    app: ClientApp
    nodes: int
    answers: Callable[[int, Message], bool] = lambda node, message: True
    arrived: list[bytes] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, RUN, SERVER
        self._run = Run.create_empty(RUN)
        self.contexts = {
            1000 + place: Context(RUN, 1000 + place, {"partition-id": place}, RecordDict(), {})
            for place in range(self.nodes)
        }

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return [*self.contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    pull_messages = push_messages

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Bring each message to its node, and back what it answers."""
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = str(uuid4())
            self.asked.append(node)
            there = message_from_proto(message_to_proto(message))
            if not self.answers(node, there):
                continue
            try:
                reply = self.app(there, self.contexts[node])
            except Exception as error:  # noqa: BLE001 - as Flower's nodes do
                reply = Message(Error(RAISED, f"{type(error).__name__}: {error}"), reply_to=there)
            self.arrived.append(message_to_proto(reply).SerializeToString())
            replies.append(read(self.arrived[-1]))
        return replies


def read(sent: bytes) -> Message:
    """The message of some bytes."""
    return message_from_proto(ProtoMessage.FromString(sent))


def run(server: ServerApp, grid: InProcessGrid) -> None:
    """Run a server to its end."""
    server(grid, Context(RUN, SERVER, {}, RecordDict(), {}))

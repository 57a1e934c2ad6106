"""Seeds into text: `RANDOM()` becomes `RANDOM(7)`, `SAMPLE BY w` becomes `SAMPLE BY w SEED 7`."""

from typing import TypeVar, cast

from tensorlake_query.syntax import ast

N = TypeVar("N", bound=ast.Node)


def seeded(node: N, seed: int) -> N:
    """Return a statement in which everything random names the seed it draws from."""
    changes: dict[str, object] = {}
    for name in node.__struct_fields__:
        value: object = getattr(node, name)
        if isinstance(value, ast.Node):
            changes[name] = seeded(value, seed)
        elif isinstance(value, tuple):
            items = cast("tuple[object, ...]", value)
            changes[name] = tuple(
                seeded(item, seed) if isinstance(item, ast.Node) else item for item in items
            )
    made = ast.with_fields(node, **changes)
    if isinstance(made, ast.Call) and made.name == "RANDOM" and not made.args:
        return ast.with_fields(made, args=(ast.Literal(seed),))
    if isinstance(made, ast.Sample) and made.seed is None:
        return ast.with_fields(made, seed=ast.Literal(seed))
    return made

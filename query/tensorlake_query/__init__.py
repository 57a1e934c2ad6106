"""TQL, the tensor query language: parse, check, plan and run queries over any columns.

The engine knows nothing of storage; it runs over a `ColumnSource`, and imports numpy and msgspec.
The first query that is parsed imports Lark; REGEXP, and work on many texts, import pyarrow.

    compiled = compile_query("WHERE label = 'cat' ORDER BY score DESC LIMIT 10", source.schema)
    result = compiled.run(source)
"""

from tensorlake_query.api import CompiledQuery, Limits, QueryResult, compile_query
from tensorlake_query.complete import Completion, complete
from tensorlake_query.functions import Function, is_function
from tensorlake_query.functions.plug_ins import plug_in_names
from tensorlake_query.functions.row_values import ReadRows, row_function
from tensorlake_query.functions.user import user_function
from tensorlake_query.syntax import ast
from tensorlake_query.syntax.errors import (
    QueryError,
    QueryLimitError,
    QueryNameError,
    QuerySyntaxError,
    QueryTypeError,
    QueryUnsupportedError,
    known_names,
)
from tensorlake_query.syntax.parser import parse, parse_change, parse_predicate
from tensorlake_query.syntax.printer import print_change, print_expr, print_name, print_query
from tensorlake_query.values.source import (
    Batch,
    ColumnIndex,
    ColumnSource,
    ColumnStatistics,
    ColumnType,
    CostedSource,
    IdentifiedSource,
    IndexCondition,
    IndexedSource,
    IndexOperator,
    IndexOrder,
    Metric,
    NearestSource,
    ObjectBatch,
    PartedSource,
    RaggedBatch,
    ReadCost,
    Region,
    RunSource,
    SourceBatch,
    Tables,
    TextBatch,
    TextStatistics,
    TracedSource,
    UniformBatch,
    WordsSource,
)

__all__ = [
    "Batch",
    "ColumnIndex",
    "ColumnSource",
    "ColumnStatistics",
    "ColumnType",
    "CompiledQuery",
    "Completion",
    "CostedSource",
    "Function",
    "IdentifiedSource",
    "IndexCondition",
    "IndexOperator",
    "IndexOrder",
    "IndexedSource",
    "Limits",
    "Metric",
    "NearestSource",
    "ObjectBatch",
    "PartedSource",
    "QueryError",
    "QueryLimitError",
    "QueryNameError",
    "QueryResult",
    "QuerySyntaxError",
    "QueryTypeError",
    "QueryUnsupportedError",
    "RaggedBatch",
    "ReadCost",
    "ReadRows",
    "Region",
    "RunSource",
    "SourceBatch",
    "Tables",
    "TextBatch",
    "TextStatistics",
    "TracedSource",
    "UniformBatch",
    "WordsSource",
    "ast",
    "compile_query",
    "complete",
    "is_function",
    "known_names",
    "parse",
    "parse_change",
    "parse_predicate",
    "plug_in_names",
    "print_change",
    "print_expr",
    "print_name",
    "print_query",
    "row_function",
    "user_function",
]

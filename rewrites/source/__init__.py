"""Source files as syntax trees: parse, build, edit and write them."""

from fullgraph.rewrites.source.document import (
    Document,
    FunctionNode,
    Replacement,
    dotted_name,
    integer_literal,
    parse_document,
    replace_nodes,
)
from fullgraph.rewrites.source.files import check_writable, unified_diff, write_files
from fullgraph.rewrites.source.required_python import required_python
from fullgraph.rewrites.source.templates import (
    build_expression,
    build_statement,
    inline_block,
    leading_lines,
    parenthesize,
    round_trips,
    string_literal,
    with_keyword,
)
from fullgraph.rewrites.source.tree import children_of, find_all, walk

__all__ = [
    "Document",
    "FunctionNode",
    "Replacement",
    "build_expression",
    "build_statement",
    "check_writable",
    "children_of",
    "dotted_name",
    "find_all",
    "inline_block",
    "integer_literal",
    "leading_lines",
    "parenthesize",
    "parse_document",
    "replace_nodes",
    "required_python",
    "round_trips",
    "string_literal",
    "unified_diff",
    "walk",
    "with_keyword",
    "write_files",
]

"""Output of a check for reviewers: formats of their tools, changed lines, baselines."""

from fullgraph.rewrites.review.baseline import read_baseline, write_baseline
from fullgraph.rewrites.review.changed_lines import ChangedLines, changed_since
from fullgraph.rewrites.review.outputs import FORMATS, Output, parse_outputs, write_outputs
from fullgraph.rewrites.review.review import Remark, Review, review_of

__all__ = [
    "FORMATS",
    "ChangedLines",
    "Output",
    "Remark",
    "Review",
    "changed_since",
    "parse_outputs",
    "read_baseline",
    "review_of",
    "write_baseline",
    "write_outputs",
]

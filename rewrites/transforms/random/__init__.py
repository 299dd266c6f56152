"""Random numbers of Python and NumPy: the calls that draw them, and tensors in their place."""

from fullgraph.rewrites.transforms.random.draws import (
    RandomDraw,
    draw_of,
    draw_of_indices,
    find_random_calls,
)
from fullgraph.rewrites.transforms.random.operator import (
    add_definitions,
    define_draw_operator,
)

__all__ = [
    "RandomDraw",
    "add_definitions",
    "define_draw_operator",
    "draw_of",
    "draw_of_indices",
    "find_random_calls",
]

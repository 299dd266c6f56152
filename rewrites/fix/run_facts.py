"""Facts of a run in eager, for the static check."""

from __future__ import annotations

import os
from typing import Any

from fullgraph.compiler.isolation import run_isolated
from fullgraph.compiler.observe import FunctionValues, observe_called_functions
from fullgraph.compiler.program import parse_program
from fullgraph.compiler.sources import index_live_functions
from fullgraph.rewrites.check.facts import write_facts


@index_live_functions()
def record_facts(path: str | os.PathLike[str], model: Any, inputs: object, **options: Any) -> int:
    """Run a program in eager, in isolation, and write which of its expressions are tensors.

    Takes the model, the inputs and the options of `explain`. Returns the number of expressions
    that were a tensor at every evaluation. `check(…, facts=path)` reads the file. Raises
    FullgraphError if the program cannot be called or the file cannot be written.
    """
    program = parse_program(model, inputs, **options)
    outcome = run_isolated(
        lambda emit: observe_called_functions(lambda: program.run(program.target)),
        objects=program.objects(),
    )
    return write_facts(path, (outcome.value or FunctionValues()).values)

"""A program as source text, in the parts that a script is assembled from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.numerics import SCALAR, Tolerance


class Unwritable(FullgraphError):
    """Raised for a value that no Python source reproduces; the message says what, and why."""


@dataclass(frozen=True)
class ProgramText:
    """Source code of a callable and of its inputs, in the parts that a script needs."""

    function: str
    """The source that defines `target` and everything it needs."""
    inputs: str
    """Statements that assign the variables in `arguments`."""
    target: str = "f"
    """Expression for the callable: a function's name, or `Model()`."""
    arguments: tuple[str, ...] = ()
    """Arguments as written in the call: "x", "mask=mask"."""
    earlier: tuple[tuple[str, ...], ...] = ()
    """Arguments of calls that come before, each as `arguments`."""
    imports: tuple[str, ...] = ()
    """Import statements besides `import torch`."""
    prelude: str = ""
    """Statements that come before the inputs: a process group, a seed."""
    under: tuple[str, ...] = ()
    """Context managers around each call: "torch.no_grad()"."""
    outputs: int | None = None
    """Number of outputs: 1 for a tensor, the length of a tuple, None for anything else."""
    loss: str = (
        "sum(y.sum() for y in torch.utils._pytree.tree_leaves({}) "
        "if isinstance(y, torch.Tensor) and y.requires_grad)"
    )
    """Scalar on which `backward` is called, with `{}` for the result; "" if there is none."""
    mutates: bool = False
    """Whether a call changes its inputs, so that each call needs new ones."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Expression of each input, by the input's name in results: "input[2]", or "input" for all."""
    random: bool = False
    """Whether a call draws random numbers, so that each call needs the same seed."""
    anew: bool = False
    """Whether a call changes state of the definitions, so that each call needs them made again."""
    random_inputs: bool = False
    """Whether the statements in `inputs` draw random numbers."""
    tolerance: Tolerance = SCALAR
    """Tolerance for its outputs."""

    @property
    def callee(self) -> str:
        """The name by which the script calls the program."""
        return self.target if self.target.isidentifier() else "model"

    def place(self, where: str) -> str:
        """Return the expression for an input, parameter or buffer, by its name in results."""
        for name, place in self.places.items():
            if where == name or where.startswith(f"{name}["):
                return place + where[len(name) :]
        path, name, inside = _split_path(where)
        owner = self._module_expression(path)
        plain = f"{owner}.{name}" if name.isidentifier() else f'getattr({owner}, "{name}")'
        return plain + inside

    def container_expression(self, where: str) -> str:
        """Return the expression that shows the container of the value named `where`.

        For an input, the structure of the container; for a module's attribute, the sorted attribute
        names.
        """
        for name, place in self.places.items():
            if where.startswith(f"{name}["):
                return f"torch.utils._pytree.tree_structure({place})"
        path, name, inside = _split_path(where)
        if inside:
            return f"torch.utils._pytree.tree_structure({self.place(where.removesuffix(inside))})"
        return f"sorted(vars({self._module_expression(path)}))"

    def _module_expression(self, path: str) -> str:
        """Return the expression for the submodule at `path`."""
        if path and not all(part.isidentifier() for part in path.split(".")):
            return f'{self.callee}.get_submodule("{path}")'
        return f"{self.callee}.{path}".rstrip(".")


def _split_path(where: str) -> tuple[str, str, str]:
    """Split "fc.state[0]" into module path "fc", attribute "state", and subscripts "[0]"."""
    outside, bracket, inside = where.partition("[")
    path, _, name = outside.rpartition(".")
    return path, name, bracket + inside

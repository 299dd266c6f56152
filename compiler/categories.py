"""Categories of causes."""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """What kind of code broke the graph. Reports and JSON show the values, which are stable."""

    # The data decides.
    BRANCH = "data-dependent branch"
    ASSERT = "tensor assert"
    COMPARISON = "tensor comparison"
    GUARD = "data-dependent guard"
    SCALAR = "scalar extraction"
    MASK = "boolean mask"
    MASKED_ASSIGNMENT = "masked assignment"
    NONZERO = "nonzero"
    BINCOUNT = "bincount"
    DYNAMIC_SHAPE = "dynamic output shape"
    SYMBOLIC_SHAPE = "symbolic shape"

    # The world outside the graph.
    PRINT = "print / logging"
    WARNING = "warning"
    TEXT = "tensor as text"
    CLOCK = "clock"
    RANDOM = "random number"
    RNG_STATE = "random generator state"
    UNIQUE_ID = "unique id"
    SYSTEM = "operating system"
    THREAD = "lock or thread"
    CACHED = "cached property"
    COLLECTIVE = "collective"
    DEVICE = "device or stream"
    IMPORT = "import"

    # Functions that Dynamo does not enter.
    NUMPY_SCALAR = "NumPy scalar"
    NUMPY_LOOP = "NumPy loop"
    NUMPY = "NumPy function"
    VARIABLE = "legacy Variable"
    LEGACY_ARGUMENT = "legacy argument"
    PACKED = "packed sequence"
    RNN = "RNN module"
    C_EXTENSION = "C extension"
    SKIPPED = "skipped function"
    DISABLED = "disabled function"
    EXPLICIT = "explicit graph break"
    TRITON = "Triton kernel"
    TORCHSCRIPT = "TorchScript"

    # Autograd.
    REQUIRES_GRAD = "requires_grad"
    GRAD_FN = "grad_fn"
    HOOK = "backward hook"
    REGISTRATION = "hook registration"
    AUTOGRAD = "autograd call"
    AUTOGRAD_FUNCTION = "autograd.Function"
    SAVED_VARIABLES = "saved_variables"

    # Tensors and modules of a special kind.
    SPARSE = "sparse tensor"
    NESTED = "nested tensor"
    SUBCLASS = "tensor subclass"
    OPAQUE = "opaque object"
    TENSOR_MUTATION = "tensor mutation"
    PARAMETER = "new parameter"
    MODULE = "nn.Module"
    OPTIMIZER = "optimizer"

    # Python.
    EXCEPTION = "exception"
    GENERATOR = "generator"
    ITERATOR = "iterator"
    COMPREHENSION = "comprehension"
    LOOP = "break in a loop"
    CONTEXT_MANAGER = "context manager"
    COPY = "copy"
    CLASS = "class definition"
    DATACLASS = "dataclass"
    INTROSPECTION = "introspection"
    SIDE_EFFECT = "side effect"
    BUILTIN = "Python builtin"
    OBJECT = "Python object"
    NON_TENSOR = "non-tensor result"
    CALL = "unsupported call"
    BYTECODE = "bytecode"

    # The compiler.
    HIGHER_ORDER = "higher-order op"
    FAKE = "missing fake kernel"
    OPERATOR_ERROR = "error in an operator"
    BACKEND = "backend error"
    RECOMPILE_LIMIT = "recompile limit"
    INTERNAL = "compiler limit"

    OTHER = "other"

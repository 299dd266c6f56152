"""Categories of `gb_type`s, by keywords in their text.

PyTorch renames a few `gb_type`s and adds dozens with every version, so no rule names an id or
relies on a whole text. The first rule that matches wins: the particular stands before the general.
"""

from __future__ import annotations

import re

from fullgraph.compiler.categories import Category as C

_RULES: tuple[tuple[C, str], ...] = (
    # Names that say all.
    (C.RECOMPILE_LIMIT, r"(recompile|cache) limit"),
    (C.EXPLICIT, r"torch\._dynamo\.(graph_break|skip_frame|step_unsupported)|Forced graph break"),
    (C.EXPLICIT, r"ComptimeContext graph break"),
    (C.DISABLED, r"compiler\.disable|_dynamo\.disable"),
    (C.RNN, r"\b(RNN|LSTM|GRU)\b"),
    (C.PRINT, r"logging|reorder a debugging function|\bprint\b"),
    (C.WARNING, r"\bwarn(ing)?s?\b(?!_)(?!.*warn_only)"),
    (C.CLOCK, r"\btime function"),
    (C.NUMPY, r"numpy|ndarray"),
    (C.TRITON, r"triton|tma_descriptor"),
    (C.TORCHSCRIPT, r"TorchScript|ScriptModule|ScriptObject|jit\.|wrap_jit"),
    (C.COLLECTIVE, r"distributed|collective|P2P|FSDP|batch_isend|Placement"),
    (C.SPARSE, r"sparse(?!_grad)"),
    (C.NESTED, r"nested_?tensor"),
    (C.COPY, r"deepcopy|copy\.copy"),
    (C.IMPORT, r"\bimport\b"),
    (C.CLASS, r"__build_class__|LOAD_BUILD_CLASS|Reconstruct user defined class"),
    (C.DATACLASS, r"dataclass"),
    (C.COMPREHENSION, r"comprehension"),
    (C.SIDE_EFFECT, r"deterministic_algorithms"),
    # Higher-order ops share their words with the rest, so they come early.
    (C.HIGHER_ORDER, r"\bHOP\b|higher[- ]?order|torch\.(cond|while_loop|map|scan|switch)\b"),
    (C.HIGHER_ORDER, r"associative_scan|wrap_with_|hints_wrapper|out_dtype|strict[_ ]mode"),
    (C.HIGHER_ORDER, r"invoke_subgraph|executorch|functional_call"),
    (C.HIGHER_ORDER, r"functorc?h|flex_?(attention|gemm)"),
    (C.HIGHER_ORDER, r"nonstrict_trace|leaf_function|set_subgraph_inputs|check_meta_consistency"),
    (C.HIGHER_ORDER, r"rewrite_signature|checkpoint context_fn|register_constant"),
    # Autograd.
    (C.AUTOGRAD_FUNCTION, r"autograd\.?Function|custom (jvp|vjp)|autograd_function"),
    (C.REGISTRATION, r"RemovableHandle"),
    (C.HOOK, r"hook"),
    (C.REQUIRES_GRAD, r"requires_grad(?!.*nn\.Parameter)"),
    (C.GRAD_FN, r"^Tensor with grad_fn|retain_grad"),
    (C.AUTOGRAD, r"autograd|backward|_ImperativeEngine|dual tensor|sparse_grad|its gradient"),
    # The data decides.
    (C.GUARD, r"guard on data-dependent|data-dependent (expression|symbol)|GuardOnDataDependent"),
    (C.ASSERT, r"\bassert(ion)?\b|torch\._check"),
    (C.BRANCH, r"data-dependent branching|guard_scalar|nb_bool|__bool__"),
    (C.SCALAR, r"\.item\(\)|\.tolist\(\)"),
    (C.SCALAR, r"with (Tensor arguments|non-scalar tensor)|index\(Tensor\)"),
    (C.SCALAR, r"extract specialized (integer|float)"),
    (C.SCALAR, r"data[- ]dependent operator"),
    (C.DYNAMIC_SHAPE, r"dynamic shape operator|data-dependent output shape"),
    (C.SYMBOLIC_SHAPE, r"symbolic|SymInt|SymNode|unbacked|torch\.Size"),
    # Tensors and modules of a special kind.
    (C.PARAMETER, r"nn\.Parameter|parameter construction"),
    (C.TENSOR_MUTATION, r"Tensor\.(resize|set_|share_memory|data\b|random_|uniform_)"),
    (C.TENSOR_MUTATION, r"tensor data attr"),
    (C.TENSOR_MUTATION, r"Parameter\.data|resize_|tensor attribute|out= |inplace op|`out="),
    (C.SUBCLASS, r"subclass(?!.*constructor)(?!.*superclass).*tensor"),
    (C.SUBCLASS, r"tensor subclass|__torch_function__"),
    (C.SUBCLASS, r"subclass default constructor|torch function mode"),
    (C.OPAQUE, r"opaque"),
    (C.MODULE, r"nn\.Module|nn\.modules|NNModule"),
    (C.OPTIMIZER, r"optimizer"),
    (C.RNG_STATE, r"torch\.Generator"),
    (C.DEVICE, r"stream|device|event method|cuda|MemPool|accelerator"),
    (C.RANDOM, r"random\.|\brandom\b"),
    # The compiler's own machinery.
    (C.BACKEND, r"backend compiler|PT2-compliant|backend_state"),
    (C.OPERATOR_ERROR, r"when making fake tensor call"),
    (C.OPERATOR_ERROR, r"get real value from fx|TypeError from user code"),
    (C.FAKE, r"fake ?(impl|tensor|kernel)|meta kernel|op packet|elementwise_dtypes|COW tensor"),
    # Python.
    (C.GENERATOR, r"generator(?!.*contextmanager)(?!-)|\bSEND\b"),
    (C.CONTEXT_MANAGER, r"context ?manager|ContextWrapping"),
    (C.CONTEXT_MANAGER, r"contextlib|escaped from compiled region"),
    (C.CONTEXT_MANAGER, r"ContextVar|_DecoratorContext|profiler|inference_mode"),
    (C.EXCEPTION, r"exception|traceback|tb_lasti|CLEANUP_THROW"),
    (C.LOOP, r"graph break in loop"),
    (C.ITERATOR, r"itertools|iter\(|next\(|tp_iter|infinite|length_hint|zip"),
    (C.SIDE_EFFECT, r"side effect|mutation|mutat|mutable|deleted variable|reconstruct|weakref"),
    (C.SIDE_EFFECT, r"immutable|STORE_GLOBAL|pending"),
    (C.TEXT, r"\b(repr|str)\(|(tp_|__|\b)(str|repr)(__|_impl)|BUILD_STRING"),
    (C.INTROSPECTION, r"inspect|data pointer"),
    (C.INTROSPECTION, r"\bid\(|call_id|FakeId|real value|is_inference|globals|\bvars\(\)|mro"),
    (C.SKIPPED, r"marked as skipped|skipped function|skip (calling|inlining)"),
    (C.C_EXTENSION, r"not implemented in python|C extension"),
    (C.C_EXTENSION, r"C/C\+\+|C method|C-(level|implemented)"),
    (C.INTERNAL, r"RestartAnalysis|partial graph|SourceType|sourceless builder"),
    (C.NON_TENSOR, r"non-(single )?Tensor"),
    (C.ITERATOR, r"unpack"),
    (C.BYTECODE, r"bytecode|(?-i:[A-Z]+_[A-Z_]{3,})|uninitialized|undefined local|cell\b"),
    (C.BUILTIN, r"builtin|constant fold|sort|min/max|cast\(\)|bytes|bytearray|range|slice"),
    (C.OBJECT, r"hash|getattr|setattr|hasattr|SimpleNamespace|attribute"),
    (C.OBJECT, r"__\w+__|_impl\b|tp_|sq_|nb_|richcompare|compar"),
    (C.OBJECT, r"object|namedtuple|dict|\blist\b|\bset\b|deque"),
    (C.OBJECT, r"Enum|mapping|descriptor|typing|TypedDict"),
    (C.OBJECT, r"isinstance|issubclass|metaclass|super"),
    (C.OBJECT, r"python_type|constant|subscript|slot|tp_init"),
    (C.CALL, r"call|function|functools|method|args|argument|closure"),
    (C.INTERNAL, r"proxy|inline|source"),
)


def category_of_gb_type(gb_type: str) -> C:
    """Return the category that matches the words of `gb_type`; OTHER if none does."""
    for category, pattern in _PATTERNS:
        if pattern.search(gb_type):
            return category
    return C.OTHER


_PATTERNS = tuple((category, re.compile(rule, re.IGNORECASE)) for category, rule in _RULES)

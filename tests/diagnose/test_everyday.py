"""What a person reads about small programs of real projects: category, sentence, what to do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from fullgraph import Explanation, explain
from tests.diagnose import everyday as e

pytestmark = pytest.mark.compiles

X = torch.linspace(-1, 2, 12).reshape(4, 3)


@dataclass
class Row:
    """What must be said about the first cause of a program."""

    program: object
    expression: str
    category: str
    said: str
    """Words of the sentence."""
    advice: str
    """Words of the first advice."""
    edit: str = ""
    """The rule of the first edit; "" if the advice stands in for one."""
    loss: bool = False


ROWS = [
    Row(e.Cached, "self.scale", "cached property", "not computed yet", "Read `self.scale` once"),
    Row(
        e.TensorHook,
        "self.seen.append(grad)",
        "backward hook",
        "in a gradient hook",
        "on a parameter, or on the output",
        loss=True,
    ),
    Row(e.ModuleHook, "self.lin(x)", "backward hook", "backward hook", "y.register_hook(hook)"),
    Row(e.OldModuleHook, "self.lin(x)", "backward hook", "backward hook", "y.register_hook(hook)"),
    Row(
        e.ForwardHook,
        "self.lin.register_forward_hook(lambda module, args, out: out * 2)",
        "hook registration",
        "registers or removes a hook",
        "once, in `__init__`",
    ),
    Row(
        e.Recurrent,
        "self.drop",
        "RNN module",
        "uses the RNN module `Recurrent`",
        "allow_rnn",
        "FG901",
    ),
    Row(
        e.numpy_condition,
        "limits.max() > 1.5",
        "NumPy scalar",
        "a NumPy value (here True)",
        "Compute `limits.max() > 1.5` once",
    ),
    Row(
        e.numpy_scalar_condition,
        "n > 1.0",
        "NumPy scalar",
        "a NumPy value (here True)",
        "Compute `n > 1.0` once",
        "FG221",
    ),
    Row(
        e.numpy_input_condition,
        "a.max() > 0.5",
        "data-dependent branch",
        "a NumPy value",
        "with torch instead of NumPy",
    ),
    Row(
        e.pointers,
        "x.data_ptr() == y.data_ptr()",
        "introspection",
        "has no address",
        "before the compiled call",
        "FG815",
    ),
    Row(
        e.aligned,
        "x.data_ptr() % 16",
        "introspection",
        "has no address",
        "before the compiled call",
        "FG815",
    ),
    Row(
        e.storage_size,
        "x.untyped_storage().nbytes()",
        "introspection",
        "has no storage",
        "x.numel() * x.element_size()",
    ),
    Row(
        e.loop_exit,
        "x.sum() > 10",
        "data-dependent branch",
        "is a tensor",
        "done = done | (x.sum() > 10)",
        "FG304",
    ),
    Row(e.endless_loop, "x.sum() > 100", "data-dependent branch", "is a tensor", "`while_loop`"),
    Row(
        e.skipped_iterations,
        "x[i].sum() > 0",
        "data-dependent branch",
        "is a tensor",
        "Compute every iteration",
    ),
    Row(
        e.handled_raise,
        "torch.isnan(x).any()",
        "data-dependent branch",
        "is a tensor",
        "without a `raise`",
    ),
    Row(
        e.plain_raise,
        "torch.isnan(x).any()",
        "data-dependent branch",
        "is a tensor",
        "torch._assert_async",
        "FG102",
    ),
    Row(
        e.early_return,
        "x.sum() > 0",
        "data-dependent branch",
        "is a tensor",
        "torch.where(x.sum() > 0, …, …)",
        "FG301",
    ),
    Row(
        e.member,
        "k in [1, 2, 3]",
        "data-dependent branch",
        "values of a tensor",
        "torch.isin(k, torch.tensor([1, 2, 3]))",
    ),
    Row(
        e.any_of_rows,
        "any(v > 0 for v in x[0])",
        "data-dependent branch",
        "values of a tensor",
        "(x[0] > 0).any()",
    ),
    Row(
        e.TopK,
        "torch.topk(x, self.k)",
        "scalar extraction",
        "needs a Python number",
        "Pass `self.k` as a Python int",
        "FG901",
    ),
    Row(
        e.draw,
        "random.random()",
        "random number",
        "Python's random generator",
        "torch.rand(())",
        edit="FG702",
    ),
    Row(
        e.drop_path,
        "random.random()",
        "random number",
        "Python's random generator",
        "torch.where",
        edit="FG702",
    ),
    Row(
        e.shuffled,
        "random.shuffle(order)",
        "random number",
        "random generator",
        "torch.randperm(n)",
    ),
    Row(
        e.permuted,
        "np.random.permutation(4)",
        "random number",
        "NumPy's random",
        "torch.randperm(n)",
        edit="FG703",
    ),
    Row(
        e.own_generator,
        "torch.Generator()",
        "random generator state",
        "random generator",
        "default generator",
    ),
    Row(
        e.seeded,
        "torch.manual_seed(0)",
        "random generator state",
        "random generator",
        "each call draws the same",
    ),
    Row(e.printed, "print(x)", "print / logging", "side effect", "is_compiling", "FG113"),
    Row(
        e.logged_number,
        "x.mean().item()",
        "scalar extraction",
        "Python scalar",
        "is only shown",
        "FG113",
    ),
    Row(e.warned, 'warnings.warn("large")', "warning", "side effect", "is_compiling", "FG113"),
    Row(e.slept, "time.sleep(0)", "clock", "it waits", "Leave `time.sleep(0)` out", "FG814"),
    Row(
        e.timed, "time.perf_counter()", "clock", "reads the clock", "outside the compiled function"
    ),
    Row(
        e.stamped,
        "datetime.datetime.now()",
        "clock",
        "reads the clock",
        "outside the compiled function",
    ),
    Row(e.named, "uuid.uuid4()", "unique id", "random bytes", "in the caller"),
    Row(e.saved, "io.BytesIO()", "operating system", "makes a buffer", "Make the buffer"),
    Row(
        e.saved_to_file,
        "torch.save(x, os.devnull)",
        "operating system",
        "writes a file",
        "after the compiled call",
    ),
    Row(
        e.set_environment,
        'os.environ["EVERYDAY"]',
        "operating system",
        "environment variable",
        "before the compiled call",
    ),
    Row(
        e.parsed,
        "json.loads('{\"a\": 2}')",
        "C extension",
        "implemented in C",
        "works on no tensor",
    ),
    Row(e.pickled, "pickle.dumps([1, 2])", "C extension", "implemented in C", "works on no tensor"),
    Row(
        e.collected,
        "gc.collect()",
        "operating system",
        "garbage collector",
        "outside the compiled function",
        "FG814",
    ),
    Row(
        e.processes,
        'subprocess.run(["true"])',
        "operating system",
        "starts a process",
        "Start the process outside",
    ),
    Row(
        e.exists,
        'pathlib.Path("/").exists()',
        "operating system",
        "operating system",
        "once, in `__init__`",
    ),
    Row(
        e.threads,
        "concurrent.futures.ThreadPoolExecutor(1)",
        "lock or thread",
        "threads",
        "Run the threads outside",
    ),
    Row(e.Locked, "self.lock", "lock or thread", "locks", "around the compiled call", "FG813"),
    Row(e.calls_c, "libc.abs", "C extension", "implemented in C", "outside the compiled function"),
    Row(e.as_dict, "dataclasses.asdict(Pair(x + 1))", "copy", "copying", "Read the fields by name"),
    Row(
        e.copied_dict,
        "copy.deepcopy(state)",
        "copy",
        "copying",
        "Copy the container alone",
        "FG801",
    ),
    Row(e.copied_tensor, "copy.deepcopy(x)", "copy", "copying", "`x.clone()`", "FG801"),
    Row(e.CopiedModule, "copy.deepcopy(self.lin)", "copy", "copying", "once in `__init__`"),
    Row(
        e.listed, "x[0].tolist()", "scalar extraction", "Python scalar", "Keep the tensor", "FG201"
    ),
    Row(e.sliced, ":n", "scalar extraction", "Python scalar", "torch.arange(…) < n", "FG201"),
    Row(
        e.looped_nonzero,
        "torch.nonzero(x > 0)",
        "nonzero",
        "depends on data",
        "Replace the loop",
        "",
    ),
    Row(
        e.classes,
        "F.one_hot(x.long().clamp(0, 2))",
        "dynamic output shape",
        "depends on data",
        "F.one_hot(x.long().clamp(0, 2), 3)",
    ),
    Row(
        e.functional_jacobian,
        "torch.autograd.functional.jacobian(lambda v: v**2, x[0])",
        "unsupported call",
        "cannot trace",
        "torch.func.jacrev",
    ),
    Row(e.Backward, "loss.backward()", "autograd call", "runs autograd", "Return the loss"),
    Row(e.retained, "y.retain_grad", "grad_fn", "autograd graph", "outside the compiled function"),
    Row(e.new_data, "y.data", "tensor mutation", "other storage", "Assign a new tensor"),
    Row(
        e.NewLayer,
        "nn.Linear(3, 3)",
        "new parameter",
        "nn.Parameter",
        "Make `nn.Linear(3, 3)` once, in `__init__`",
    ),
    Row(
        e.loaded,
        "torch.utils.data.TensorDataset(x)",
        "skipped function",
        "loads data",
        "pass the batch in",
    ),
    Row(
        e.flags,
        "torch.backends.cudnn.flags(enabled=False)",
        "context manager",
        "a setting of torch",
        "around the compiled call",
        "FG813",
    ),
    Row(
        e.framed,
        "inspect.currentframe()",
        "introspection",
        "running program",
        "outside the compiled function",
    ),
    Row(
        e.Checkpointed,
        "self.seen.append(x.shape)",
        "higher-order op",
        "changes what lies outside",
        "out of the checkpointed function",
    ),
]


def explained(
    program: object, *, loss: bool = False, calls: tuple[torch.Tensor, ...] = ()
) -> Explanation:
    torch.manual_seed(0)
    x = X.clone().requires_grad_() if program is e.retained else X
    model = program() if isinstance(program, type) and issubclass(program, nn.Module) else program
    return explain(model, x, loss=loss or None, calls=calls, unmask=False)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.program.__name__)
def test_an_everyday_program(row: Row) -> None:
    cause = explained(row.program, loss=row.loss).causes[0]
    assert (cause.expression, cause.category) == (row.expression, row.category)
    assert row.said in cause.message
    assert row.advice in cause.advice[0].text
    assert len(cause.advice[0].text) <= 160, "two lines of a terminal hold it"
    assert (cause.edits[0].rule if cause.edits else "") == row.edit


def test_an_index_by_data_needs_a_tensor_in_place_of_a_dict() -> None:
    found = explained(e.indexed_dict)
    looked_up = next(c for c in found.causes if "fullgraph" in c.modes)
    assert looked_up.expression.startswith("names[")
    assert "Make a tensor of what `names` holds" in looked_up.advice[0].text


def test_a_counter_is_best_a_buffer_and_says_so_once() -> None:
    (recompile,) = explained(e.Counted, calls=(X, X, X)).recompiles
    assert recompile.message.count("self.step") == 1
    buffer, setting = recompile.advice
    assert 'self.register_buffer("step", torch.tensor(0), persistent=False)' in buffer.text
    assert "allow_unspec_int_on_nn_module" in setting.text


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (e.exits, "ends the process in eager, without torch.compile, by SystemExit(3)"),
        (e.exits_at_once, "ends the process in eager, without torch.compile, by exit code 4"),
        (e.interrupted, "raises in eager, without torch.compile: KeyboardInterrupt"),
    ],
)
def test_an_exit_is_no_crash_of_the_compiler(program: object, why: str) -> None:
    found = explained(program)
    assert found.error is not None and why in found.error
    assert not found.crashes


def test_an_operator_that_refuses_fake_tensors_says_why() -> None:
    (crash,) = explained(e.byte_mask).crashes
    assert "tensors used as indices must be" in crash.message
    assert "works in eager" in crash.conclusion and "mask.bool()" in crash.conclusion


def test_an_error_that_the_code_handles_is_not_called_a_bug() -> None:
    (crash,) = explained(e.handled_index).crashes
    assert "Your code handles this error" in crash.conclusion

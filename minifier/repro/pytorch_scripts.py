"""Scripts that PyTorch's own minifier wrote, such as `minifier_launcher.py` and `repro.py`.

They are executed as `python FILE` would, up to their call of `run_repro`: nothing is minified and
nothing is written.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Literal

import torch

from fullgraph.compiler.errors import FullgraphError
from fullgraph.compiler.ladder import Backend
from fullgraph.compiler.private import (
    REPRO_PACKAGE,
    Configs,
    KernelTable,
    ReproCall,
    ReproInputs,
    ReproReached,
    changed_configs,
    configs_in_environment,
    get_kernel_table,
    intercept_run_repro,
    load_configs,
    read_repro_inputs,
    set_configs,
    set_kernel_table,
    start_fake_process_groups,
)

_OWN = (  # where torch writes and what it prints; none of it changes a result
    "TORCH_COMPILE_DEBUG",
    "TORCH_LOGS",
    "TORCH_TRACE",
    "TORCHDYNAMO_DEBUG_DIR_ROOT",
    "TORCHDYNAMO_REPRO",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TRITON_CACHE_DIR",
    "_TORCHINDUCTOR_PYOBJECT",
)
"""Variables that say where torch writes and what it prints; they change no result."""


_PASSING = {  # set by torch itself while it compiles, or for its own output
    "debug_partitioner",
    "fake_tensor_allow_unsafe_data_ptr_access",
    "functionalize_rng_ops",
    "selective_decompose",
    "unlift_effect_tokens",
    "compile_threads",
}
"""Settings that torch itself changes while it compiles, or that concern its output."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """Contents of a script by PyTorch's minifier; its module may be used only inside `in_force`."""

    module: torch.nn.Module
    inputs: tuple[object, ...]
    repro_after: Literal["dynamo", "aot"]
    """Stage after which the graph was captured: Dynamo or AOTAutograd."""
    backend: Backend = "inductor"
    accuracy: bool = False
    """Whether it shows a wrong result, rather than an exception or a crash."""
    loss: bool = False
    """Whether it runs backward, too."""
    dynamic: bool | None = None
    grad: bool = True
    """Whether grad mode is on."""
    autocast: str | None = None
    """Device type of the autocast; None if it has none."""
    notes: tuple[str, ...] = ()
    """Sentences on differences from the run in which the script was written."""
    settings: Configs = field(default_factory=dict)
    """Settings of the compiler that the script changes, by module and name."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the script changes."""
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Size and rank of its process groups, by name."""
    kernels: KernelTable = ()
    """Triton kernels that it defines."""

    @property
    def options(self) -> dict[str, object]:
        """Keyword arguments for `bisect` and `minify`; such scripts do not check strides."""
        return {
            "backend": self.backend,
            "loss": self.loss or None,
            "dynamic": self.dynamic,
            "check_strides": False,
        }

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply settings, modes, Triton kernels and process groups in the block."""
        with _restore_settings(), contextlib.ExitStack() as stack:
            os.environ.update(self.environment)
            set_configs(self.settings)
            set_kernel_table(self.kernels)
            stack.enter_context(start_fake_process_groups(self.groups))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            if self.autocast is not None:
                stack.enter_context(torch.amp.autocast(self.autocast))
            yield


def load(path: str | os.PathLike[str]) -> Loaded | None:
    """Return the contents of a script by PyTorch's minifier; None for any other file.

    Inputs that were not saved, or whose folder is missing, are random as PyTorch's own rule makes
    them, from a fixed seed. Raises FullgraphError if the script cannot be executed.
    """
    file = Path(path)
    tree = _parse_script(file)
    if tree is None:
        return None
    notes: list[str] = []
    with _restore_settings(), torch.random.fork_rng(devices=[]):
        before, kept = load_configs(), dict(os.environ)
        torch.default_generator.manual_seed(0)
        call = _run_script(file, tree, notes)
        wanted = _relevant_settings(changed_configs(before, load_configs()))
        environment = {
            name: value
            for name, value in os.environ.items()
            if kept.get(name) != value and not name.startswith(_OWN)
        }
        kernels = get_kernel_table()
        folder = _inputs_folder(file, call.options.get("save_dir"))
        found = _read_inputs(file, call, folder)
    if environment:
        started = configs_in_environment(environment)
        for name, values in _relevant_settings(started).items():
            wanted[name] = {**values, **wanted.get(name, {})}
    notes += _input_notes(found, call, folder, _random_constants(tree, call.module))
    return _make_loaded(call, found, tuple(notes), wanted, environment, kernels)


def _make_loaded(
    call: ReproCall,
    found: ReproInputs,
    notes: tuple[str, ...],
    wanted: Configs,
    environment: Mapping[str, str],
    kernels: KernelTable,
) -> Loaded:
    """Return the contents of a script, from its `run_repro` call and its inputs.

    `notes` are sentences for the user. `wanted`, `environment` and `kernels` are the settings,
    environment variables and Triton kernels that the script sets.
    """
    options, dynamo = call.options, call.level == "dynamo"
    accuracy = bool(options.get("accuracy"))
    if dynamo and accuracy:
        call.module.eval()  # as torch does
    devices = [leaf.device.type for leaf in found.args if isinstance(leaf, torch.Tensor)]
    forward_only = wanted.get("torch._dynamo.config", {}).get("repro_forward_only", False)
    symbolic = found.symbolic or options.get("tracing_mode") == "symbolic"
    return Loaded(
        call.module,
        found.args,
        call.level,
        backend=(options.get("backend") if dynamo else None) or "inductor",
        accuracy=accuracy,
        loss=dynamo and call.grad and not forward_only,
        dynamic=True if symbolic else None,
        grad=call.grad,
        autocast=next((d for d in devices if d != "cpu"), "cpu")
        if options.get("autocast")
        else None,
        notes=notes,
        settings=wanted,
        environment=environment,
        groups=call.groups,
        kernels=kernels,
    )


def _relevant_settings(changed: Configs) -> Configs:
    """Return `changed` without the settings that cannot matter for the failure.

    Torch changes those itself while it compiles, or they concern only its output.
    """
    lasting = {
        module: {
            name: value
            for name, value in values.items()
            if name not in _PASSING and not name.startswith("trace.")
        }
        for module, values in changed.items()
    }
    return {module: values for module, values in lasting.items() if values}


def _parse_script(file: Path) -> ast.Module | None:
    """Return the parsed script; None if PyTorch's minifier did not write it."""
    try:
        text = file.read_text()
        tree = ast.parse(text, str(file)) if "run_repro" in text else None
    except (OSError, UnicodeDecodeError):
        return None
    except SyntaxError as error:
        if REPRO_PACKAGE not in text:
            return None
        raise FullgraphError(
            f"{file} is no Python at line {error.lineno}: PyTorch's minifier writes its own "
            "errors into such a script, so fix that line first."
        ) from None
    imports = (node for node in ast.walk(tree or ast.Module([], [])))
    if any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith(REPRO_PACKAGE)
        for node in imports
    ):
        return tree
    return None


def _run_script(file: Path, tree: ast.Module, notes: list[str]) -> ReproCall:
    """Execute a script and return the arguments of its `run_repro` call.

    Adds a sentence to `notes` for each setting that this version of torch does not have.
    """
    module = ModuleType(_unused_module_name(file.stem))
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # Dynamo looks its globals up there
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        with intercept_run_repro():
            for statement in tree.body:
                code = compile(ast.Module(_as_main(statement), []), str(file), "exec")
                try:
                    exec(code, vars(module))
                except AttributeError:
                    if not _sets_config(statement):
                        raise
                    notes.append(f"This torch has no setting for {ast.unparse(statement)!r}.")
    except ReproReached as reached:
        return reached.call
    except Exception as error:
        raise _describe_load_error(file, error) from error
    finally:
        sys.path.remove(str(file.parent.resolve()))
    raise FullgraphError(f"{file} never calls run_repro: run it with Python to see what it does.")


def _as_main(statement: ast.stmt) -> list[ast.stmt]:
    """Return the body of `if __name__ == "__main__"`; any other statement, as a list of one."""
    tests = ("__name__ == '__main__'", "'__main__' == __name__")
    if isinstance(statement, ast.If) and ast.unparse(statement.test) in tests:
        return statement.body
    return [statement]


def _sets_config(statement: ast.stmt) -> bool:
    """Return whether a statement assigns a setting of torch."""
    if not isinstance(statement, ast.Assign):
        return False
    name = ast.unparse(statement.targets[0])
    return name.startswith("torch.") and "config." in name


def _unused_module_name(stem: str) -> str:
    """Return `stem`, or `stem` and a number if a module of this name is loaded."""
    name, number = stem, 1
    while name in sys.modules:
        name, number = f"{stem}_{number}", number + 1
    return name


def _read_inputs(file: Path, call: ReproCall, folder: str | None) -> ReproInputs:
    """Return the inputs that the script loads from `folder`. Raises FullgraphError."""
    try:
        return read_repro_inputs(call.load_args, folder)
    except Exception as error:
        raise _describe_load_error(file, error) from error


def _describe_load_error(file: Path, error: Exception) -> FullgraphError:
    """Return the error for a script that raised `error` when it was executed."""
    line, step = 0, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(file):
            line = step.tb_lineno
        step = step.tb_next
    said = str(error).strip().partition("\n")[0]
    return FullgraphError(
        f"{file}:{line} raises {type(error).__name__}: {said}; `python {file} run` has to come "
        "that far first."
    )


def _inputs_folder(file: Path, named: str | None) -> str | None:
    """Return the folder of a script's saved inputs; None if it does not exist.

    `named` is the path in the script, None if it has none. If a script was moved with its inputs,
    the folder is found beside it.
    """
    if named is None:
        return None
    places = (Path(named), file.parent / named, file.parent / Path(named).name)
    return next((str(place) for place in places if (place / "storages").is_dir()), None)


def _random_constants(tree: ast.Module, module: torch.nn.Module) -> list[str]:
    """Return the names of the parameters and buffers that the script fills with random numbers."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    buffers = [
        ast.literal_eval(call.args[0])
        for call in calls
        if ast.unparse(call.func) == "self.register_buffer"
        and ast.unparse(call.args[1]).startswith(("torch.randn(", "torch.randint("))
    ]
    return [*buffers, *(name for name, _ in module.named_parameters())]


def _input_notes(
    found: ReproInputs, call: ReproCall, folder: str | None, constants: list[str]
) -> Iterator[str]:
    """Yield a sentence for each way in which the inputs differ from those of the failure.

    `folder` is that of the saved inputs; `constants` are the parameters and buffers that the script
    fills with random numbers.
    """
    rule = "random numbers, and zeros where they are integers"
    if found.lost:
        where = folder or call.options.get("save_dir")
        yield f"{_values_of(found.lost)} missing in {where}: PyTorch's rule makes {rule}."
    if found.unsaved:
        yield f"{_values_of(found.unsaved)} not saved with the script: PyTorch's rule makes {rule}."
    if constants:
        yield f"The script has random numbers for {', '.join(constants)}, as PyTorch writes it."
    if found.nothing:
        yield f"PyTorch cannot save {', '.join(found.nothing)}: None is passed."
    if call.level == "dynamo" and call.options.get("backend") is None:
        yield "The script does not name its backend, which was a function: inductor is taken."


def _values_of(count: int) -> str:
    return f"The values of {count} input{'s are' if count > 1 else ' is'}"


@contextlib.contextmanager
def _restore_settings() -> Iterator[None]:
    """Restore the compiler's settings, the environment and the Triton kernels after the block."""
    configs, kernels, environment = load_configs(), get_kernel_table(), dict(os.environ)
    try:
        yield
    finally:
        set_configs(configs)
        set_kernel_table(kernels)
        os.environ.clear()
        os.environ.update(environment)

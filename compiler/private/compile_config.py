"""Settings of torch.compile that have no public getter or setter."""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Callable, Iterator

import torch


@contextlib.contextmanager
def capture_scalars_and_shapes() -> Iterator[None]:
    """Capture scalars and dynamic output shapes, as `fullgraph=True` does since torch 2.10."""
    import torch._dynamo.config as config

    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


@contextlib.contextmanager
def silence_torch_logs() -> Iterator[None]:
    """Keep torch's logs and warnings off the streams that capture the user's output."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "torch"]
    loggers = [logging.getLogger(name) for name in ("torch", *names)]
    before = [logger.handlers for logger in loggers]
    torch_logger = loggers[0]
    propagate, torch_logger.propagate = torch_logger.propagate, False
    for logger in loggers:
        others = [h for h in logger.handlers if type(h) is not logging.StreamHandler]
        logger.handlers = [
            *others,
            logging.NullHandler(),
        ]  # with none, Python would print to stderr
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"torch\.")
            yield
    finally:
        torch_logger.propagate = propagate
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers = handlers


def unwrap_compiled(target: object) -> object:
    """Return the module or function that `torch.compile` wrapped; `target` if it is not wrapped."""
    if getattr(target, "_torchdynamo_disable", False):  # a wrapper that the user wants
        return target
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        children = getattr(target, "__dict__", {}).get("_modules", {})
        inner = inspect.getattr_static(target, name, None)
        if inner is None and isinstance(children, dict):  # a ScriptModule has a wrapper of C++
            inner = children.get(name)
        if inner is not None:
            return inner
    return target


def is_compile_disabled(target: Callable[..., object]) -> bool:
    """Whether `torch.compiler.disable` excludes `target` itself from compilation."""
    function = target.forward if isinstance(target, torch.nn.Module) else target
    return any(
        getattr(f, "_torchdynamo_disable", False) is True
        for f in (target, function, getattr(function, "__func__", None))
    )


def current_stance() -> str | None:
    """Return the stance set by `torch.compiler.set_stance`; None if unknown."""
    from torch._dynamo import eval_frame

    current = getattr(eval_frame, "_stance", None)
    return getattr(current, "stance", None)


def isolate_recompiles_kwargs() -> dict[str, bool]:
    """Return the torch.compile arguments that give a function its own Dynamo cache.

    {} if this torch does not support it.
    """
    known = "isolate_recompiles" in inspect.signature(torch.compile).parameters
    return {"isolate_recompiles": True} if known else {}


def compile_modes() -> list[str]:
    """Return the modes of torch.compile."""
    from torch._inductor import list_mode_options

    return list(dict.fromkeys(("default", *list_mode_options())))


def has_dispatch_mode() -> bool:
    """Whether a TorchDispatchMode is active."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return bool(_get_current_dispatch_mode_stack())

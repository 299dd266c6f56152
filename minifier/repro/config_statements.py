"""Settings of the compiler as statements of a script."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from fullgraph.compiler.private import mode_options
from fullgraph.minifier.emit import syntax
from fullgraph.minifier.emit.program_text import ProgramText, Unwritable
from fullgraph.minifier.extract.definitions import Sources
from fullgraph.minifier.extract.objects import Spelling


def write_settings(
    mode: str | None,
    options: Mapping[str, object] | None,
    settings: Mapping[str, object] | None,
    program: ProgramText,
    backend: str,
    sources: Sources,
) -> list[str]:
    """Return a script's lines that assign compiler settings: `torch._dynamo.config.x = 1`.

    `mode` and `options` are those of `torch.compile` and become settings of Inductor; `settings`
    have full names. Definitions that the values need are added to `sources`.
    """
    told = dict(settings or {})
    inductor: dict[str, object] = mode_options(mode) if mode else {}
    told |= {f"torch._inductor.config.{k}": v for k, v in {**inductor, **(options or {})}.items()}
    if program.random and backend == "inductor":
        told.setdefault("torch._inductor.config.fallback_random", True)
    return [_assign_setting(name, value, sources) for name, value in told.items()]


def register_backend(name: str, backend: object, sources: Sources) -> str:
    """Return the line that registers a backend; its definition is added to `sources`.

    Raises Unwritable if the backend has no source.
    """
    return f'torch._dynamo.register_backend({Spelling(sources.name).of(backend)}, "{name}")'


def _assign_setting(name: str, value: object, sources: Sources) -> str:
    """Return the line `name = value`, or a comment if the value cannot be written as source.

    Definitions that the value needs are added to `sources`.
    """
    try:
        with suppress(Unwritable):
            return f"{name} = {syntax.text(syntax.value(value, lambda _: None))}"
        return f"{name} = {Spelling(sources.name).of(value)}"
    except Unwritable as error:
        return f"# {name} was set, but {error}"


def sources_beside(program: ProgramText) -> Sources:
    """Return an empty collection for the definitions that a script's settings need.

    It will not define a name that the call of `program` uses.
    """
    sources = Sources(lambda value: Spelling(sources.name).of(value))
    for argument in (program.target, *program.arguments):
        name = argument.partition("=")[2] or argument.lstrip("*")
        if name.isidentifier():
            sources.reserve_name(name, program)
    return sources

"""Remedies for what lies outside a graph: side effects, functions not entered."""

from __future__ import annotations

import re

from fullgraph.compiler.categories import Category as C
from fullgraph.diagnose.taxonomy.remedy import OUTSIDE, Remedy
from fullgraph.diagnose.taxonomy.usage import Usage

_FILES = r"\b(open|load|loads|read\w*|exists|is_file|is_dir|listdir|glob|stat)\("
_WRITES = (
    r"\b(save|dump|write\w*|savefig|imwrite|to_csv|tofile|flush|mkdir|makedirs|unlink|remove)\("
)


def _fits_operator(usage: Usage) -> object:
    """Return whether a call was seen to give tensors, and no method that keeps Python state."""
    return usage.is_tensors and not re.search(r"qualname: \w+\.", usage.context)


_LOCK = re.compile(r"[Ll]ock\b|\bacquire\b|\brelease\b|Semaphore|Condition")

REMEDIES: dict[C, tuple[Remedy, ...]] = {
    C.PRINT: (
        Remedy(
            "Iterate without the progress bar that {it} draws, or draw it outside the compiled "
            "function.",
            r"\b(tqdm|trange)\b",
        ),
        Remedy(
            "Guard {it} with `if not torch.compiler.is_compiling():`.",
            fix="Guard it",
        ),
    ),
    C.WARNING: (
        Remedy(
            "Guard {it} with `if not torch.compiler.is_compiling():`.",
            fix="Guard it",
        ),
    ),
    C.TEXT: (
        Remedy(
            "Make the text outside the compiled function, or of `.shape` and `.dtype` only: {it} "
            "needs the tensor's values.",
            fix="Make the text",
        ),
    ),
    C.CLOCK: (
        Remedy("Leave {it} out, or wait outside the compiled function.", r"\bsleep\("),
        Remedy(
            "Read the clock outside the compiled function instead of {it}; `torch.profiler` times "
            "what is inside.",
        ),
    ),
    C.RANDOM: (
        Remedy(
            "Shuffle with torch: `torch.randperm(n)` in place of {it}.",
            r"\b_?(shuffle|permutation|sample)\(",
            trap="The numbers come from torch's generator, another stream.",
        ),
        Remedy(
            "Draw indices with torch in place of {it}: `{indices}`.",
            r"\b_?choices?\(",
            trap="The numbers come from torch's generator, another stream.",
        ),
        Remedy(
            "Draw with torch and choose with `torch.where`: `{drawn}` in place of `{draw}`.",
            if_=lambda usage: usage.exit or re.search(r"[<>]", usage.expression + usage.statement),
            fix="Draw with torch and choose",
        ),
        Remedy(
            "Draw with torch: `{drawn}` in place of {drawing}.",
            fix="Draw with torch.",
            trap="The numbers come from torch's generator, another stream.",
        ),
        Remedy("Draw {it} {outside}, or draw with torch."),
    ),
    C.RNG_STATE: (
        Remedy(
            "Draw from torch's default generator, or make the generator and draw with it outside "
            "the compiled function: {it}.",
            r"generator\s*=|Generator\(",
            fix="Draw from torch's default",
        ),
        Remedy("Read the seed once, in `__init__`, and keep it.", r"initial_seed\("),
        Remedy(
            "Draw the noise once, in `__init__` or at the top of the file: after {it}, each call "
            "draws the same.",
            r"seed\(",
            fix="Draw what is the same",
        ),
        Remedy("Move {it} out of the compiled function."),
    ),
    C.UNIQUE_ID: (
        Remedy("Make the id in the caller and pass it in, or leave it out, in place of {it}."),
    ),
    C.SYSTEM: (
        Remedy(
            "End the process outside the compiled function, instead of with {it}.",
            r"\b(exit|_exit|abort)\(",
        ),
        Remedy("Make the buffer of {it} outside the compiled function.", r"\b(String|Bytes)IO\(\)"),
        Remedy(
            "Return what {it} writes, and write it after the compiled call.",
            _WRITES,
        ),
        Remedy(
            "Set the environment variable before the compiled call.",
            r"\bos\.environ\b|\bputenv\(",
            lambda usage: re.search(r"\]\s*=[^=]|putenv|setdefault|pop\(", usage.statement),
        ),
        Remedy(
            "Start the process outside the compiled function, not with {it} inside.",
            r"\b(subprocess|multiprocessing|Popen|os\.system|fork)\b",
        ),
        Remedy("Call {it} outside the compiled function.", r"\b(gc|tracemalloc|signal|atexit)\."),
        Remedy("Read it once, in `__init__`, and keep the result of {it}.", _FILES),
        Remedy(
            "Ask once, in `__init__` or at the top of the file, and keep what {it} gives.",
            fix="Do it once",
        ),
    ),
    C.THREAD: (
        Remedy(
            "Run the threads outside the compiled function: {it} starts or feeds them.",
            r"Thread|Pool|Executor|Queue|queue|Future|submit|asyncio",
        ),
        Remedy(
            "Take the lock around the compiled call, not inside.",
            if_=lambda usage: _LOCK.search(f"{usage.statement} {usage.context}"),
            fix="Take the lock around",
        ),
        OUTSIDE,
    ),
    C.CACHED: (
        Remedy(
            "Read {it} once before the compiled call, as at the end of `__init__`: it is a plain "
            "attribute from then on.",
        ),
    ),
    C.DEVICE: (
        Remedy("Leave {it} out: the graph keeps the order of operations.", r"synchronize\("),
        Remedy(
            "Read memory statistics outside the compiled function instead of {it}.",
            r"memory|mem_get_info",
        ),
        Remedy("Choose devices and streams outside the compiled function: move {it} there."),
    ),
    C.IMPORT: (
        Remedy(
            "Import at the top of the file, in a `try` if it may be missing, instead of {it}.",
            fix="Import at the top",
        ),
    ),
    C.RNN: (
        Remedy(
            "Set `torch._dynamo.config.allow_rnn = True`, or call the RNN outside the compiled "
            "function: its eager kernel is fused already.",
            r"\)\Z",
        ),
        Remedy("Set `torch._dynamo.config.allow_rnn = True`: {it} is of an RNN module."),
    ),
    C.C_EXTENSION: (
        Remedy(
            "Do {it} outside the compiled function, or once in `__init__`: it works on no tensor.",
            r"\b(json|pickle|hashlib|decimal|datetime|zlib|struct|base64|re|array)\.",
        ),
        Remedy(
            "Wrap {it} in a function with `@torch.library.custom_op` and a fake kernel.",
            if_=_fits_operator,
            fix="Wrap it in a custom op",
        ),
        OUTSIDE,
    ),
    C.SKIPPED: (
        Remedy(
            "Load the data outside the compiled function and pass the batch in, instead of {it}.",
            r"DataLoader|Dataset|Sampler",
        ),
        Remedy(
            "Wrap `{callee}` in a function with `@torch.library.custom_op` and a fake kernel.",
            if_=_fits_operator,
            fix="Wrap it in a custom op",
        ),
        Remedy("Call `{callee}` {outside}."),
    ),
    C.DISABLED: (
        Remedy(
            "Take `torch.compiler.disable` away from `{callee}`.",
            fix="Take `torch.compiler.disable`",
        ),
    ),
    C.TORCHSCRIPT: (
        Remedy(
            "Use the module from before `torch.jit.script` or `torch.jit.trace` in place of {it}.",
            fix="Use the module from before",
        ),
    ),
}

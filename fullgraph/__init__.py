"""fullgraph: what keeps a model from `torch.compile(model, fullgraph=True)`, and what to do.

Importing this package loads no torch; each name is loaded when it is first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fullgraph.compiler.errors import FullgraphError as FullgraphError
    from fullgraph.compiler.fallback import compile as compile
    from fullgraph.diagnose.explanation import Explanation as Explanation
    from fullgraph.minifier.bisect.bisect import bisect as bisect
    from fullgraph.minifier.minified import Minified as Minified
    from fullgraph.minifier.minify import minify as minify
    from fullgraph.minifier.rungs.bisection import Bisection as Bisection
    from fullgraph.rewrites.check import CheckResult as CheckResult
    from fullgraph.rewrites.check import Finding as Finding
    from fullgraph.rewrites.check import check as check
    from fullgraph.rewrites.fix import Fixes as Fixes
    from fullgraph.rewrites.fix import explain as explain
    from fullgraph.rewrites.fix import fix as fix

__version__ = "0.1.0"

_HOMES = {
    "compile": "fullgraph.compiler.fallback",
    "Bisection": "fullgraph.minifier.rungs.bisection",
    "bisect": "fullgraph.minifier.bisect.bisect",
    "Minified": "fullgraph.minifier.minified",
    "minify": "fullgraph.minifier.minify",
    "check": "fullgraph.rewrites.check",
    "CheckResult": "fullgraph.rewrites.check",
    "Finding": "fullgraph.rewrites.check",
    "explain": "fullgraph.rewrites.fix",
    "fix": "fullgraph.rewrites.fix",
    "Fixes": "fullgraph.rewrites.fix",
    "Explanation": "fullgraph.diagnose.explanation",
    "FullgraphError": "fullgraph.compiler.errors",
}

__all__ = [
    "Bisection",
    "CheckResult",
    "Explanation",
    "Finding",
    "Fixes",
    "FullgraphError",
    "Minified",
    "bisect",
    "check",
    "compile",
    "explain",
    "fix",
    "minify",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fullgraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

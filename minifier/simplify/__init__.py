"""Simplify a finished script into the text that a person would have written."""

from fullgraph.minifier.simplify.formatting import format_script
from fullgraph.minifier.simplify.passes import simplify_script
from fullgraph.minifier.simplify.script_search import ScriptProblem
from fullgraph.minifier.simplify.trial import begin_trial

__all__ = ["ScriptProblem", "begin_trial", "format_script", "simplify_script"]

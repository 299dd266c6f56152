"""What to try against a break."""

from __future__ import annotations

from fullgraph.compiler.events import Break
from fullgraph.diagnose.explanation import Advice
from fullgraph.diagnose.taxonomy import fixes_data, fixes_python, fixes_world
from fullgraph.diagnose.taxonomy.categories import Category
from fullgraph.diagnose.taxonomy.classify import classify, statement_of
from fullgraph.diagnose.taxonomy.fix import Fix
from fullgraph.diagnose.taxonomy.personalize import in_own_words
from fullgraph.diagnose.taxonomy.switches import SWITCHES

FIXES: dict[Category, tuple[Fix, ...]] = fixes_data.FIXES | fixes_world.FIXES | fixes_python.FIXES
_LAST = Advice("Move it out of the compiled function.", "code")


def advise(brk: Break, expression: str) -> tuple[Advice, ...]:
    """What to try against a break, best first.

    Fixes in the code come before settings of the compiler; among them, those for code that reads
    like the user's first, then those that were run, then those that are only words.
    """
    category = Category(classify(brk, expression))
    statement = statement_of(brk)
    fitting = [f for f in FIXES.get(category, ()) if f.fits(expression, statement)]
    fitting.sort(key=lambda fix: (not fix.when, not fix.advice.modes))
    switches = [s.advice for s in SWITCHES.get(category, ())]
    if not fitting and not switches:
        return (_LAST,)
    return (*(in_own_words(fix.advice, category, expression) for fix in fitting), *switches)

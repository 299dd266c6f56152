"""The commands of `fullgraph`, one a file: `add` declares it, the rest runs it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object

BAD_INPUT = 2
"""The exit code for bad input, which is said in one sentence."""

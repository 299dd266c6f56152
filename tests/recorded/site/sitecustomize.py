"""Notes the executed files of an interpreter that a test starts (`tests/recorded/executed.py`)."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

if notes := os.environ.get("FULLGRAPH_EXECUTED"):
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "executed.py")
    spec = spec_from_file_location("_executed", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules["_executed"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.start_noting(notes)

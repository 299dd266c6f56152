"""Source text of running code, and edited source that live functions run."""

from fullgraph.compiler.sources.cells import (
    cell_name,
    imports_of_cells,
    name_cells,
    running_shell,
)
from fullgraph.compiler.sources.edited_functions import (
    ORIGINAL,
    ORIGINAL_VALUE,
    FunctionEdit,
    edit_functions,
)
from fullgraph.compiler.sources.live_functions import (
    find_live_functions,
    freeze_inherited_objects,
    index_live_functions,
)
from fullgraph.compiler.sources.overrides import SourceOverride, override_sources
from fullgraph.compiler.sources.ownership import Owner, is_user_code, owner_of, short_path
from fullgraph.compiler.sources.source import FunctionNode, Source, first_line, read_source

__all__ = [
    "ORIGINAL",
    "ORIGINAL_VALUE",
    "FunctionEdit",
    "FunctionNode",
    "Owner",
    "Source",
    "SourceOverride",
    "cell_name",
    "edit_functions",
    "find_live_functions",
    "first_line",
    "freeze_inherited_objects",
    "imports_of_cells",
    "index_live_functions",
    "is_user_code",
    "name_cells",
    "override_sources",
    "owner_of",
    "read_source",
    "running_shell",
    "short_path",
]

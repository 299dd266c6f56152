"""What breaks on which version of torch and Python: tables that `docs/constructs.py` writes."""

from fullgraph.rewrites.check.constructs.table import (
    Row,
    Table,
    known_versions,
    load_table,
    read_rows,
)

__all__ = ["Row", "Table", "known_versions", "load_table", "read_rows"]

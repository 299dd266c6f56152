"""Run a callable and leave no trace: forked children, snapshots, captured output."""

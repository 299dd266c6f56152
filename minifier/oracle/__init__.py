"""Decide whether a candidate fails: cases, failures, verdicts, the sandbox, the journal."""

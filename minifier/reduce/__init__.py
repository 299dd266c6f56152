"""Reducers: functions that make the current candidate of a `Problem` smaller."""

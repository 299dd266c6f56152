"""Stages after capture, as models: functions of recorded values that compile nothing."""

"""The auditor for renters of GPU servers: measure, judge, report."""

__version__ = "0.1.0"

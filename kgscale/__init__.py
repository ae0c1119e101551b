"""Decides whether a cheaper way of extracting a knowledge graph may replace the trusted one."""

__version__ = "0.1.0"

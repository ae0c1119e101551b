"""Scoring: extractions against gold, reduced to metrics, causes and a verdict."""

"""Extraction: shards of chunks through GLiNER and LLM engines into committed rows."""

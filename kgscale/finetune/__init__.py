"""Training GLiNER models: data, the training loop, and the export of what was learnt."""

"""Gold sets: sampled, annotated by a strong LLM, reviewed by people, compared and checked."""

"""What the default models that learn relations are trained on beside their own grammar."""

from __future__ import annotations

import random
from pathlib import Path

from kgscale.finetune import annotated
from kgscale.finetune.contamination import Apart
from kgscale.finetune.facts import Document

EMPTY = 0.1
"""Share kept of SoMeSci's lines that hold nothing."""
NO_RELATION = 0.5
"""Share kept of SoMeSci's lines with entities alone."""
HELD_OUT = 60
"""Documents of each annotated set that are kept for measuring."""
SEED = 5


def annotated_sets(data: Path, apart: Apart) -> dict[str, list[Document]]:
    """The documents of Re-DocRED and SoMeSci that share no run of words with texts that will be scored."""
    rng = random.Random(SEED)  # noqa: S311
    somesci = (it for it in annotated.somesci(data / "somesci") if len(it.text) > 30)
    found = {
        "re_docred": list(annotated.re_docred(data / "re_docred" / "dev_200docs.json")),
        "somesci": [
            it for it in somesci if it.relations or (it.entities and rng.random() < NO_RELATION) or rng.random() < EMPTY
        ],
    }
    return {name: [it for it in them if apart.behind(it.text) is None] for name, them in found.items()}

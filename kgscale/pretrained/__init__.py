"""The small default models that packages carry: listed, prepared on first use, and found by name."""

from kgscale.pretrained.catalogue import PretrainedModel, available
from kgscale.pretrained.identity import fingerprint
from kgscale.pretrained.lookup import locate
from kgscale.pretrained.minilm import stored_threshold
from kgscale.pretrained.preparation import prepare, verify
from kgscale.pretrained.relex import stored_relation_threshold
from kgscale.pretrained.safety import no_code

__all__ = [
    "PretrainedModel",
    "available",
    "fingerprint",
    "locate",
    "no_code",
    "prepare",
    "stored_relation_threshold",
    "stored_threshold",
    "verify",
]

"""The small default models that packages carry: listed, prepared on first use, and found by name."""

from kgscale.pretrained.catalogue import PretrainedModel, available
from kgscale.pretrained.identity import fingerprint
from kgscale.pretrained.lookup import locate
from kgscale.pretrained.minilm import stored_threshold
from kgscale.pretrained.preparation import prepare, verify

__all__ = ["PretrainedModel", "available", "fingerprint", "locate", "prepare", "stored_threshold", "verify"]

"""What a GLiNER is trained from: a default model, a directory or a Hugging Face id of a GLiNER or a bare encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgscale.errors import UserError
from kgscale.extract.gliner import load_gliner
from kgscale.pretrained import locate
from kgscale.pretrained.assemble import new_gliner
from kgscale.pretrained.quiet import quiet_transformers
from kgscale.pretrained.safety import PICKLES

CONFIG = "gliner_config.json"


@dataclass(frozen=True)
class Base:
    """A model to train, which can be opened as often as needed; `fresh` says that its heads know nothing yet."""

    name: str
    source: Path | str
    fresh: bool

    def open(self) -> Any:
        """The model in fp32 on the CPU; `UserError` for a kind of GLiNER that is not trained here."""
        import torch
        from gliner.modeling.base import UniEncoderSpanModel, UniEncoderTokenModel

        try:
            with quiet_transformers():
                gliner = new_gliner(Path(self.source)) if self.fresh else load_gliner(self.source)
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"the base cannot be loaded: {error}", where=self.name) from error
        if type(gliner.model) not in (UniEncoderSpanModel, UniEncoderTokenModel):
            raise UserError(
                f"a {type(gliner).__name__} cannot be trained here",
                where=self.name,
                hint="name a GLiNER that reads text and labels in one encoder and finds entities only",
            )
        if self.fresh:
            # The name of a directory means nothing elsewhere; the saved model holds its encoder.
            gliner.config.model_name = gliner.config.encoder_config._name_or_path = Path(self.name).name
        return gliner.to(torch.float32)


def widest_entity(gliner: Any) -> int | None:
    """Words of the longest entity that a model can find; null if there is no limit."""
    return None if hasattr(gliner.model, "scorer") else int(gliner.config.max_width)


def find_base(name: str, say: Callable[[str], None]) -> Base:
    """The base of this name; `UserError` if there is none, or its weights are pickled."""
    source = locate(name, "gliner", say=say)
    if isinstance(source, str):
        return _of_hub(name)
    if (source / CONFIG).is_file():
        return Base(name, source, fresh=False)
    if not (source / "config.json").is_file():
        raise UserError(
            "this is neither a GLiNER nor an encoder: it has no gliner_config.json and no config.json",
            where=str(source),
        )
    return Base(name, source, fresh=True)


def _of_hub(name: str) -> Base:
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        try:
            hf_hub_download(name, CONFIG)
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            return Base(name, Path(snapshot_download(name, ignore_patterns=[*PICKLES, "*.onnx", "*.h5"])), fresh=True)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{name} cannot be fetched from Hugging Face: {str(error).splitlines()[0]}",
            hint="look at its spelling and at the network, or name a directory",
        ) from error
    return Base(name, name, fresh=False)

"""What a user may set: one model per section of the config file, every field with its default and its meaning."""

from kgscale.config.cluster import ClusterConfig, LimitsConfig
from kgscale.config.compare import Action, AllowedDrop, CompareConfig, RagThresholds, Threshold
from kgscale.config.corpus import ChunkConfig, CorpusConfig
from kgscale.config.engines import ENGINE_KINDS, Engine, GlinerEngine, LlmEngine, OpenAIEngine, VllmEngine
from kgscale.config.methods import Fallback, MethodConfig
from kgscale.config.schema import Aliases, RelationType, SchemaConfig
from kgscale.config.section import UnknownNameError
from kgscale.config.whole import Config

__all__ = [
    "ENGINE_KINDS",
    "Action",
    "Aliases",
    "AllowedDrop",
    "ChunkConfig",
    "ClusterConfig",
    "CompareConfig",
    "Config",
    "CorpusConfig",
    "Engine",
    "Fallback",
    "GlinerEngine",
    "LimitsConfig",
    "LlmEngine",
    "MethodConfig",
    "OpenAIEngine",
    "RagThresholds",
    "RelationType",
    "SchemaConfig",
    "Threshold",
    "UnknownNameError",
    "VllmEngine",
]

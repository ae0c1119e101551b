"""The whole config file: its sections, and that the names in them fit together."""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from kgscale.config.cluster import ClusterConfig, LimitsConfig
from kgscale.config.compare import CompareConfig
from kgscale.config.corpus import CorpusConfig
from kgscale.config.engines import Engine, GlinerEngine, VllmEngine
from kgscale.config.methods import MethodConfig
from kgscale.config.schema import SchemaConfig
from kgscale.config.section import Section, UnknownNameError


class Config(Section):
    """The whole config file."""

    run: Annotated[str, Field(min_length=1)] = "runs/default"
    """The run directory."""
    corpus: CorpusConfig
    gold: str | None = None
    """Reference annotations: a JSON file in the guide's form, or a Parquet file in kgscale's."""
    gold_exhaustive: bool = True
    """Whether the gold annotates everything in its chunks; if not, precision is shown as a lower bound."""
    schema_: SchemaConfig = Field(default=SchemaConfig(), alias="schema")
    """What is to be extracted."""
    engines: dict[str, Engine] = {"gliner": GlinerEngine(), "llm": VllmEngine()}
    """Models by name; `kind` is `gliner`, `vllm` or `openai` (by default from the name: gliner…, else vllm)."""
    methods: dict[str, MethodConfig] = {
        "gliner": MethodConfig(entities="gliner"),
        "llm": MethodConfig(entities="llm", relations="llm"),
        "hybrid": MethodConfig(entities="gliner", relations="llm"),
    }
    """Ways of extracting by name, built from the engines."""
    compare: CompareConfig = CompareConfig()
    limits: LimitsConfig = LimitsConfig()
    cluster: ClusterConfig = ClusterConfig()
    keep_raw: bool = False
    """Keep each engine's own answer in the rows."""
    seed: int = 0
    """Seed of everything random."""

    @field_validator("engines", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: {"kind": "gliner" if str(name).startswith("gliner") else "vllm", **it}
            if isinstance(it, dict)
            else {"kind": "gliner" if str(name).startswith("gliner") else "vllm"}
            if it is None
            else it
            for name, it in value.items()
        }

    @field_validator("engines", "methods")
    @classmethod
    def _directory_names(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
                raise ValueError(f"the name {name!r}: use letters, digits, `-`, `_` and `.` (it names a directory)")
        return value

    @model_validator(mode="after")
    def _references(self) -> Self:
        if not self.schema_.relation_types and any(method.relations for method in self.methods.values()):
            raise UnknownNameError(
                ("schema", "relation_types"), "there is no type, but there are methods that extract relations"
            )
        for name, method in self.methods.items():
            at = ("methods", name)
            self._need_engine((*at, "entities"), method.entities)
            if method.relations is not None:
                self._need_engine((*at, "relations"), method.relations, entities=method.entities)
            if method.fallback is not None:
                if method.fallback.engine != method.relations:
                    raise UnknownNameError(
                        (*at, "fallback", "engine"), f"must be the engine of `relations`, {method.relations!r}"
                    )
                pair = (self.engines[method.entities], self.engines[method.fallback.engine])
                if [isinstance(it, GlinerEngine) for it in pair] != [True, False]:
                    raise UnknownNameError((*at, "fallback"), "only GLiNER entities can fall back to an LLM")
        return self

    def _need_engine(self, field: tuple[str, ...], name: str, *, entities: str | None = None) -> None:
        if name not in self.engines:
            raise UnknownNameError(
                field, f"no engine is named {name!r}; there are: {', '.join(self.engines) or 'none'}"
            )
        if entities not in (None, name) and isinstance(self.engines[name], GlinerEngine):
            raise UnknownNameError(
                field,
                f"{name!r} is a GLiNER engine, which relates no entities but its own; name an LLM engine, or name "
                f"{name!r} for `entities` too",
            )

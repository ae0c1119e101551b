"""GLiNER over whole shards: every word of every chunk is read, in batches of even length."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kgscale.config import GlinerEngine, RelationType
from kgscale.extract.gliner_faster import best_dtype, factor_scorer, quick_span_labels
from kgscale.extract.gliner_prompts import PROMPT_SHARE, Prompt, Prompts
from kgscale.extract.gliner_relations import Link, RelationReader, entities_only, has_relations, relations_of
from kgscale.extract.windows import Window, windows
from kgscale.pretrained import locate, no_code, stored_relation_threshold, stored_threshold
from kgscale.records import Entity, Relation
from kgscale.text import split_words

LONGEST_WORD = 100
"""Characters; a longer run of letters (a hash, base64) is read in pieces, since one word must fit a window."""

MAPS = ("valid_texts", "valid_to_orig_idx", "start_token_map", "end_token_map", "num_original")
"""What GLiNER notes when it prepares texts, to find its words in them again."""


@dataclass
class Found:
    """What GLiNER found in one chunk; times in milliseconds. An `error` means that it could not be read."""

    entities: list[Entity] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    windows: int = 0
    batch_ms: float = 0.0
    own_ms: float = 0.0
    error: str | None = None

    @property
    def batch_size(self) -> float:
        """With how many chunks the batches were shared on average."""
        return self.batch_ms / self.own_ms if self.own_ms else 1.0


@dataclass(frozen=True)
class Piece:
    """One window of one chunk: the text `[start, stop)` in characters, its cost, and the part that it owns."""

    chunk: int
    start: int
    stop: int
    core_start: int
    core_stop: int
    tokens: int


class GlinerModel:
    """A loaded model with the labels of one schema; called by one thread."""

    def __init__(
        self,
        engine: GlinerEngine,
        entity_types: Sequence[str],
        relation_types: Mapping[str, RelationType] | None = None,
        *,
        threads: int | None = None,
        loaded: Any = None,
    ) -> None:
        """Load the model that the engine names, or take the one that is `loaded`, whose type and device may change.

        Raises `UserError` for relation types that the model has no part for, and for labels that it cannot read.
        """
        import torch

        if threads:
            torch.set_num_threads(threads)
        self._torch, self._engine = torch, engine
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        stored = stored_relation = None
        if loaded is None:
            source = locate(engine.model, "gliner")
            loaded, stored = load_gliner(source, engine.revision), stored_threshold(Path(source))
            stored_relation = stored_relation_threshold(Path(source))
        if relation_types and not has_relations(loaded):
            raise entities_only(engine.model)
        self.dtype = best_dtype(self.device) if engine.dtype == "auto" else getattr(torch, engine.dtype)
        self._model = loaded.to(self.device).to(self.dtype).eval()
        factor_scorer(self._model.model)
        quick_span_labels(self._model.data_processor)
        self._model.data_processor.words_splitter = self.words
        self._tokenizer = self._model.data_processor.transformer_tokenizer
        self._collator = self._model.create_collator()
        self._overlap = engine.window_overlap
        self.threshold = next(it for it in (engine.threshold, stored, 0.5) if it is not None)
        self._batch_tokens = engine.batch_tokens or (4096 if self.device == "cpu" else 65536)
        self.relation_threshold = next(it for it in (engine.relation_threshold, stored_relation, 0.5) if it is not None)
        related = has_relations(self._model)
        self._reader = RelationReader(self._model, self.threshold, self.relation_threshold) if related else None
        self._longest = int(self._model.config.max_len)
        self.limit = _input_limit(self._model, self._tokenizer)
        """Most tokens that reach the encoder."""
        self._prompts = Prompts(
            entity_types,
            relation_types or (),
            engine.labels,
            cost=self.label_cost,
            room=int(self.limit * PROMPT_SHARE),
            most=getattr(self._model.config, "max_types", None),
        )
        self._symmetric = {name for name, it in (relation_types or {}).items() if it.symmetric}
        # Two special tokens frame the input, and one separates the labels from the text; relations have their own.
        self.frame = 3 + related + self._prompts.tokens
        # Byte by byte at worst, a character takes four tokens.
        self._longest_word = max(1, min(LONGEST_WORD, (self.limit - self.frame) // 4))
        self._is_seen = lru_cache(1 << 16)(self._has_pieces)

    def extract(self, texts: Sequence[str]) -> list[Found]:
        """Find each text's entities, with offsets into it, and relations; never cuts, never fails as a whole.

        A batch that raises is halved until the text that cannot be read stands alone; its `error` says why.
        """
        # Models of several schemas share a processor, and their words differ in length.
        self._model.data_processor.words_splitter = self.words
        found = [Found() for _ in texts]
        pieces: list[Piece] = []
        for index, text in enumerate(texts):
            try:
                pieces += list(self.pieces(index, text))
            except Exception as error:  # noqa: BLE001  # whatever a tokenizer raises must cost one chunk, not the shard
                found[index].error = f"{type(error).__name__}: {error}"
        links: list[list[Link]] = [[] for _ in texts]
        for piece in pieces:
            found[piece.chunk].windows += 1
        for batch in self._batches(pieces):
            self._run(batch, texts, found, links)
        for result, its in zip(found, links, strict=True):
            result.entities = _flat(result.entities)
            result.relations = relations_of(result.entities, its, self._symmetric)
        return found

    def asking(self, types: Sequence[str], relation_types: Mapping[str, RelationType] | None = None) -> "GlinerModel":
        """The same weights and thresholds, asked for other types."""
        thresholds = {"threshold": self.threshold, "relation_threshold": self.relation_threshold}
        return GlinerModel(self._engine.model_copy(update=thresholds), types, relation_types, loaded=self._model)

    @property
    def label_passes(self) -> list[list[str]]:
        """The wordings of entity types, as they are asked for at once."""
        return [it.entities for it in self._prompts.passes]

    def label_cost(self, label: str) -> int:
        """Tokens that a label takes in the prompt."""
        return 1 + len(self._tokenizer(label, add_special_tokens=False)["input_ids"])

    def pieces(self, chunk: int, text: str) -> Iterator[Piece]:
        """The windows in which a text is read, `chunk` being its number; none if it has no words."""
        spans = [(start, stop) for _, start, stop in self.words(text)]
        if not spans:
            return
        # A whole text may be longer than the encoder reads: windows are cut from it, so a warning would mislead.
        options = {"is_split_into_words": True, "add_special_tokens": False, "verbose": False}
        encoded = self._tokenizer([text[a:b] for a, b in spans], **options)
        weights = [0] * len(spans)
        for word in encoded.word_ids():
            weights[word] += 1
        for it in windows(weights, self._longest, self.limit - self.frame, self._overlap):
            yield Piece(chunk, *_characters(it, spans, len(text)), self.frame + sum(weights[it.start : it.stop]))

    def words(self, text: str) -> Iterator[tuple[str, int, int]]:
        """The words that the encoder sees.

        GLiNER numbers words by the tokens that come of them: one of which nothing is left (a zero-width space, a soft
        hyphen, a control character) would shift all that follow, and with them the offsets of their entities.
        """
        for word, start, stop in _split(text, self._longest_word):
            if (word.isascii() and word.isprintable()) or self._is_seen(word):
                yield word, start, stop

    def _has_pieces(self, word: str) -> bool:
        return bool(self._tokenizer([word], is_split_into_words=True, add_special_tokens=False)["input_ids"])

    def _batches(self, pieces: list[Piece]) -> Iterator[list[Piece]]:
        """Pieces of like length together, longest first, as many as the padded batch may hold."""
        batch: list[Piece] = []
        for piece in sorted(pieces, key=lambda it: -it.tokens):
            if batch and (len(batch) + 1) * batch[0].tokens > self._batch_tokens:
                yield batch
                batch = []
            batch.append(piece)
        if batch:
            yield batch

    def _run(self, batch: list[Piece], texts: Sequence[str], found: list[Found], links: list[list[Link]]) -> None:
        begun = time.perf_counter()
        try:
            read = self._predict([texts[it.chunk][it.start : it.stop] for it in batch])
        except Exception as error:  # noqa: BLE001  # whatever a model raises must cost one chunk, not the shard
            if self._torch.cuda.is_available():
                self._torch.cuda.empty_cache()
            if len(batch) == 1:
                found[batch[0].chunk].error = f"{type(error).__name__}: {error}"
                return
            middle = len(batch) // 2
            self._run(batch[:middle], texts, found, links)
            self._run(batch[middle:], texts, found, links)
            return
        batch_ms = (time.perf_counter() - begun) * 1e3
        for piece, (entities, related) in zip(batch, zip(*read, strict=True), strict=True):
            result, at = found[piece.chunk], piece.start
            result.batch_ms += batch_ms
            result.own_ms += batch_ms / len(batch)
            for it in entities:
                start, stop = it["start"] + at, it["end"] + at
                if piece.core_start <= start < piece.core_stop:
                    name = self._prompts.entity_of[it["label"]]
                    result.entities.append(Entity(texts[piece.chunk][start:stop], name, start, stop, it["score"]))
            for it in related:
                head, tail = ((it[end]["start"] + at, it[end]["end"] + at) for end in ("head", "tail"))
                links[piece.chunk].append(Link(head, tail, self._prompts.relation_of[it["relation"]], it["score"]))

    def _predict(self, texts: list[str]) -> tuple[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]:
        """The spans of each text and the relations between them, over all prompts."""
        spans: list[list[dict[str, Any]]] = [[] for _ in texts]
        related: list[list[dict[str, Any]]] = [[] for _ in texts]
        for prompt in self._prompts.passes:
            for have, more in zip((spans, related), self._ask(texts, prompt), strict=True):
                for its, others in zip(have, more, strict=True):
                    its.extend(others)
        return spans, related

    def _ask(self, texts: list[str], prompt: Prompt) -> tuple[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]:
        model = self._model
        asked = {"relations": prompt.relations} if self._reader else {}
        prepared = model.prepare_batch(texts, prompt.entities, **asked)
        kinds = {"relation_types": prepared["relation_types"]} if self._reader else {}
        batch = model.collate_batch(
            prepared["input_x"], prepared["entity_types"], self._collator, label_names=prepared["label_names"], **kinds
        )
        maps = [prepared[name] for name in MAPS]
        if self._reader:
            decoded, linked = self._reader.read(batch)
            return model.map_entities_to_text(decoded, *maps), model.map_relations_to_text(linked, decoded, *maps)
        output = model.run_batch(batch, threshold=self.threshold)
        decoded = model.decode_batch(output, batch, threshold=self.threshold)
        return model.map_entities_to_text(decoded, *maps), [[] for _ in texts]


def load_gliner(source: Path | str, revision: str | None = None) -> Any:
    """The GLiNER of a directory or hub id, on the CPU; code that comes with it is not run."""
    from gliner import GLiNER

    local = {} if isinstance(source, str) else {"local_files_only": True}
    with no_code(str(source)):
        return GLiNER.from_pretrained(str(source), revision=revision, **local)


def _split(text: str, longest: int) -> Iterator[tuple[str, int, int]]:
    """Words as kgscale counts them, cut where they are too long for any window."""
    for word, start, stop in split_words(text):
        if len(word) <= longest:
            yield word, start, stop
            continue
        for at in range(start, stop, longest):
            end = min(at + longest, stop)
            yield text[at:end], at, end


def _characters(window: Window, spans: list[tuple[int, int]], length: int) -> tuple[int, int, int, int]:
    """A window of words as offsets in characters; the cores tile the whole text."""
    last = window.core_stop == len(spans)
    return (
        spans[window.start][0],
        spans[window.stop - 1][1],
        spans[window.core_start][0] if window.core_start else 0,
        length if last else spans[window.core_stop][0],
    )


def _input_limit(model: Any, tokenizer: Any) -> int:
    """Most tokens that reach the encoder: the tokenizer cuts at its own limit, absolute positions end at theirs."""
    limit = min(int(tokenizer.model_max_length), 1 << 20)
    encoder = getattr(model.config, "encoder_config", None)
    positions = getattr(encoder, "max_position_embeddings", None)
    if positions and not getattr(encoder, "relative_attention", False):
        limit = min(limit, int(positions))
    return limit


def _flat(entities: list[Entity]) -> list[Entity]:
    """Entities in text order without overlaps; of two that overlap, from two label prompts, the better score stays."""
    kept: list[Entity] = []
    for it in sorted(entities, key=lambda it: (-(it.score or 0.0), it.start or 0)):
        if all(it.end <= other.start or it.start >= other.end for other in kept):  # type: ignore[operator]
            kept.append(it)
    return sorted(kept, key=lambda it: it.start or 0)

"""What is wrong with a gold set, or makes its scores mean less than they seem to."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kgscale.config import GlinerEngine
from kgscale.corpus.notices import SHOWN
from kgscale.extract.ends import Ends
from kgscale.extract.prompt import Task, prompt_book
from kgscale.finetune.contamination import RUN, Named, runs
from kgscale.formats import Gold, load_gold
from kgscale.gold.against import other_files, seen_texts
from kgscale.gold.duplicates import near_duplicates
from kgscale.gold.gaps import find_gaps
from kgscale.gold.sets import Settings
from kgscale.records import GoldChunk, Origin
from kgscale.runs import Run
from kgscale.score.keys import Keys, normals
from kgscale.text import words


class Kind(StrEnum):
    """What may be wrong."""

    UNREADABLE = "unreadable"
    """A part of the file that could not be read as it is: offsets that do not fit, entities without a name."""
    SEEN = "seen by a model"
    """Its text shares eight words in a row with a prompt or with training data."""
    DUPLICATE = "duplicate"
    """Its text is nearly that of another chunk: the two count as one in truth."""
    OFF_SCHEMA = "type outside the schema"
    """No method can find it; an alias in the schema may say which type is meant."""
    MISFIT = "relation between other types than the schema's"
    """Its type names the entity types that it joins, and these are others: it is left out of every method's rows."""
    LOOSE_END = "relation end is no entity"
    """It can be found in the pair modes only with luck, and never with the types of both ends."""
    ABSENT = "entity not in the text"
    """Neither its name nor an alias is there: no method that copies names can find it."""
    OTHER_TEXT = "other text than the corpus"
    NOT_IN_CORPUS = "not in the corpus"
    """It counts as missed by every method."""
    BLANK = "no text"
    SUSPECT = "probably not exhaustive"
    """It looks as if not everything in the texts were annotated: precision would be too low."""
    UNMARKED = "unmarked name"
    """A name that is annotated in another chunk stands here unmarked."""
    EMPTY = "nothing annotated"
    """Good if there is nothing: such chunks show what methods make up."""
    PARTIAL = "not exhaustive"
    """Declared: precision is a lower bound."""
    UNREVIEWED = "pseudo"
    """Annotated by a model, reviewed by nobody."""


NOTES = (Kind.UNMARKED, Kind.EMPTY, Kind.PARTIAL, Kind.UNREVIEWED)
"""What is told but is no fault."""
DECLARE = 'say so with "exhaustive": false in its chunks, or gold_exhaustive: false in the config'


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one chunk."""

    kind: Kind
    chunk_id: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """All that was found; `skipped` says what could not be looked at, and why."""

    chunks: int
    origins: dict[str, int]
    unmarked_share: float | None
    """Of the annotated names that stand in each text, the share that is not annotated there."""
    findings: list[Finding]
    skipped: list[str]

    @property
    def faults(self) -> int:
        """Findings that are more than notes."""
        return sum(it.kind not in NOTES for it in self.findings)


def check_gold(path: Path, settings: Settings, against: Sequence[Path], *, has_schema: bool) -> Checked:
    """Look at a gold file from every side.

    With a run, also at its corpus; with a run or a config (`has_schema`), at the types; `against` are prompts and
    training data. Raises `UserError` where a file cannot be read at all.
    """
    gold = load_gold(path)
    texts, corpus = _texts(gold.chunks, settings.run)
    skipped = []
    findings = list(_unreadable(gold))
    findings += corpus
    findings += _blank_or_empty(gold.chunks, texts)
    findings += _duplicates(gold.chunks, texts)
    findings += _ends(gold.chunks, settings)
    findings += _absent(gold.chunks, texts)
    gaps = find_gaps(gold.chunks, texts)
    findings += [Finding(Kind.UNMARKED, *it) for it in gaps.unmarked]
    if not gold.partial:
        findings += [Finding(Kind.SUSPECT, "", f"{it}; {DECLARE}") for it in gaps.suspicions()]
    findings += _declared(gold)
    if has_schema:
        findings += _off_schema(gold.chunks, settings)
        findings += _misfits(gold.chunks, settings)
    else:
        skipped.append("types: name the run or config whose schema they should follow (--config)")
    if missing := len(gold.chunks) - len(texts):
        skipped.append(f"the texts of {missing:,} chunks, which neither the gold nor a run (--config) has")
    seen: list[Named | Path] = [*_prompts(settings), *against]
    if seen:
        findings += _seen(gold.chunks, texts, seen)
    others = [it for path in against for it in other_files(path)]
    if others:
        skipped.append(f"{len(others):,} files of another kind than text and JSON, for example {others[0]}")
    if not against:
        skipped.append("training data and few-shot examples: name their files (--against)")
    origins = Counter(it.origin.value for it in gold.chunks)
    order = list(Kind)
    findings.sort(key=lambda it: order.index(it.kind))
    return Checked(len(gold.chunks), dict(origins), gaps.share, findings, skipped)


def _unreadable(gold: Gold) -> Iterator[Finding]:
    problems = gold.report.problems
    for it in problems.first:
        yield Finding(Kind.UNREADABLE, it.where, it.message)
    for kind, count in problems.counts.items():
        if count > SHOWN:
            yield Finding(Kind.UNREADABLE, "", f"… and {count - SHOWN:,} more: {kind}")


Texts = Mapping[str, str]
"""Text by chunk id, where it is known."""


def _texts(chunks: Sequence[GoldChunk], run: Run | None) -> tuple[Texts, list[Finding]]:
    own = {it.chunk_id: it.text for it in chunks if it.text is not None}
    if run is None:
        return own, []
    wanted = {it.chunk_id for it in chunks}
    corpus = {
        it.chunk_id: it.text
        for start, stop in run.planned
        for it in run.read_chunks(start, stop)
        if it.chunk_id in wanted
    }
    findings = [Finding(Kind.NOT_IN_CORPUS, it) for it in sorted(wanted - corpus.keys())]
    findings += [Finding(Kind.OTHER_TEXT, key) for key, text in own.items() if corpus.get(key, text) != text]
    return {**own, **corpus}, findings


def _blank_or_empty(chunks: Sequence[GoldChunk], texts: Texts) -> Iterator[Finding]:
    for it in chunks:
        if not texts.get(it.chunk_id, "text").strip():
            yield Finding(Kind.BLANK, it.chunk_id)
        elif not it.entities and not it.relations:
            yield Finding(Kind.EMPTY, it.chunk_id)


def _duplicates(chunks: Sequence[GoldChunk], texts: Texts) -> Iterator[Finding]:
    ids = [it.chunk_id for it in chunks if it.chunk_id in texts]
    for it in near_duplicates([texts[key] for key in ids]):
        yield Finding(Kind.DUPLICATE, ids[it.second], f"{it.similarity:.0%} like {ids[it.first]}")


def _ends(chunks: Sequence[GoldChunk], settings: Settings) -> Iterator[Finding]:
    """Relations of chunks that annotate entities; names are compared as in scoring, aliases included."""
    other = Keys.of(settings.schema).names
    for it in chunks:
        ends = [end for relation in it.relations for end in (relation.source, relation.target)]
        names = [name for entity in it.entities for name in (entity.text, *entity.aliases)]
        keys = normals([*names, *ends])
        known = {other.get(key, key) for key in keys[: len(names)]}
        for end, key in dict(zip(ends, keys[len(names) :], strict=True)).items():
            if other.get(key, key) not in known:
                yield Finding(Kind.LOOSE_END, it.chunk_id, end)


def _off_schema(chunks: Sequence[GoldChunk], settings: Settings) -> Iterator[Finding]:
    keys = Keys.of(settings.schema)
    for it in chunks:
        for labels, aliases, known in (
            ([entity.type for entity in it.entities], keys.entity_types, keys.known_entity_types),
            ([relation.type for relation in it.relations], keys.relation_types, keys.known_relation_types),
        ):
            for label, key in dict(zip(labels, normals(labels), strict=True)).items():
                if key and aliases.get(key, key) not in known:
                    yield Finding(Kind.OFF_SCHEMA, it.chunk_id, label)


def _misfits(chunks: Sequence[GoldChunk], settings: Settings) -> Iterator[Finding]:
    ends = Ends.of(settings.schema)
    for it in chunks:
        for found in ends.misfits(it.entities, it.relations):
            yield Finding(Kind.MISFIT, it.chunk_id, f"{found.source} {found.type} {found.target}")


def _absent(chunks: Sequence[GoldChunk], texts: Texts) -> Iterator[Finding]:
    for it in chunks:
        if it.chunk_id not in texts:
            continue
        (text,) = normals([texts[it.chunk_id]])
        names = dict.fromkeys((entity.text, *entity.aliases) for entity in it.entities if entity.start is None)
        for name in names:
            if not any(key and key in text for key in normals(name)):
                yield Finding(Kind.ABSENT, it.chunk_id, name[0])


def _declared(gold: Gold) -> Iterator[Finding]:
    if gold.partial and all(it.exhaustive for it in gold.chunks):
        yield Finding(Kind.PARTIAL, "", f"{gold.partial:,} chunks, as the file says")
    for it in gold.chunks:
        if not it.exhaustive:
            yield Finding(Kind.PARTIAL, it.chunk_id)
        if it.origin is Origin.PSEUDO:
            yield Finding(Kind.UNREVIEWED, it.chunk_id, it.annotator or "annotator unknown")


def _prompts(settings: Settings) -> list[Named]:
    """What the LLM engines of a run are told: descriptions of types may hold examples."""
    if settings.run is None:
        return []
    engines = {name: it for name, it in settings.run.config.engines.items() if not isinstance(it, GlinerEngine)}
    books = {name: prompt_book(settings.schema, it, Task.BOTH) for name, it in engines.items()}
    return [Named(f"the prompt of {name}", line) for name, it in books.items() for line in it.system.splitlines()]


def _seen(chunks: Sequence[GoldChunk], texts: Texts, sources: Iterable[Named | Path]) -> Iterator[Finding]:
    holders: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for it in chunks:
        for run in runs(texts.get(it.chunk_id, "")):
            holders[run].append(it.chunk_id)
    told: set[tuple[str, str]] = set()
    for source in sources:
        for seen in [source] if isinstance(source, Named) else seen_texts(source):
            hits = Counter(chunk_id for run in runs(seen.text) for chunk_id in holders.get(run, ()))
            for chunk_id, count in hits.items():
                if (chunk_id, seen.where) not in told:
                    told.add((chunk_id, seen.where))
                    least = min(RUN, words(texts[chunk_id])) + count - 1
                    yield Finding(Kind.SEEN, chunk_id, f"about {least} words of it are in {seen.where}")

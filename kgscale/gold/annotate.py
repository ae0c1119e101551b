"""Pseudo-gold: a sample annotated by one strong model, or by several that vote."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgscale.config import SchemaConfig
from kgscale.errors import UserError, WorkError
from kgscale.formats.common import Record
from kgscale.formats.guide import write_guide_gold
from kgscale.gold.annotator import Annotator, annotate
from kgscale.gold.answers import SUFFIX, Answer, Answers, Key, open_answers
from kgscale.gold.cost import Cost, estimate, spent
from kgscale.gold.mentions import mentions
from kgscale.gold.sets import Say, read_set, refuse_overwriting
from kgscale.gold.vote import Opinion, vote
from kgscale.records import GoldChunk, Origin, Relation

JOINED = " + "
Agree = Callable[[str], bool]
"""Shows what is about to be spent, and says whether to go on."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """What is in the pseudo-gold, what failed, and what it took (earlier runs of the same command included)."""

    chunks: int
    entities: int
    """Different entities, by name and type, summed over the chunks."""
    relations: int
    failed: int
    reasons: dict[str, int]
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """Who annotates: all are asked the same, and `needed` of them must agree."""

    annotators: Sequence[Annotator]
    needed: int
    schema: SchemaConfig

    @classmethod
    def of(cls, annotators: Sequence[Annotator], schema: SchemaConfig, needed: int | None) -> "Panel":
        """A panel that decides by majority unless `needed` says otherwise; raises `UserError` if it cannot be."""
        models = [it.engine.model for it in annotators]
        if len(set(models)) < len(models):
            raise UserError(f"the same model stands twice among the annotators: {', '.join(models)}")
        needed = len(models) // 2 + 1 if needed is None else needed
        if not 1 <= needed <= len(models):
            raise UserError(f"{needed} of {len(models)} annotators cannot agree")
        return cls(annotators, needed, schema)


def write_pseudo_gold(sample: Path, out: Path, panel: Panel, seed: int, *, agree: Agree, say: Say) -> Annotated:
    """Annotate a sample into a gold file; what was answered before is not asked for again.

    Answers are kept beside the gold, in `<out>.answers.jsonl`, one line each. Chunks without a usable answer of every
    annotator are left out and counted; the same command tries them again. Raises `WorkError` if an endpoint does not
    answer or none of the chunks could be annotated, `UserError` if the user does not agree to the cost.
    """
    if not out.with_name(out.name + SUFFIX).exists():
        refuse_overwriting(out)
    records = read_set(sample, say)
    with open_answers(out, say) as answers:
        _ask(records, answers, panel, seed, agree, say)
        good = answers.good()
        chosen = [(it, chunk) for it in records if (chunk := _chunk(it, good, panel))]
        reasons = _reasons(records, answers, panel)
        costs = tuple(spent(it, answers.all) for it in panel.annotators)
        if not chosen:
            told = "; ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
            raise WorkError(f"no chunk could be annotated: {told}", where=str(answers.path))
        write_guide_gold(out, (Record(it.doc_id, it.text, chunk) for it, chunk in chosen))
    return Annotated(
        len(chosen),
        sum(len({(entity.text, entity.type) for entity in chunk.entities}) for _, chunk in chosen),
        sum(len(chunk.relations) for _, chunk in chosen),
        len(records) - len(chosen),
        reasons,
        costs,
    )


def _ask(records: Sequence[Record], answers: Answers, panel: Panel, seed: int, agree: Agree, say: Say) -> None:
    todo = [(it, left) for it in panel.annotators if (left := it.unanswered(records, answers))]
    done = sum(len(records) - len(it.unanswered(records, answers)) for it in panel.annotators)
    if done:
        say(f"{done:,} of {len(records) * len(panel.annotators):,} answers are there already")
    if not todo:
        return
    types = [*panel.schema.entity_types, *panel.schema.relation_types]
    lines = [f"asked for: {', '.join(types)}"]
    for annotator, left in todo:
        likely, most = estimate(annotator, left)
        at_most = f"at most {most.output_tokens:,} out" + ("" if most.dollars is None else f", ${most.dollars:,.2f}")
        lines.append(f"about {likely} ({at_most})")
    if not agree("\n".join(lines)):
        raise UserError("nothing was asked")

    async def everyone() -> None:
        await asyncio.gather(*(annotate(it, left, answers, seed, say) for it, left in todo))

    asyncio.run(everyone())


def _chunk(record: Record, good: Mapping[Key, Answer], panel: Panel) -> GoldChunk | None:
    """The annotation of one text; null if an annotator has no usable answer."""
    found = [good.get(it.key(record)) for it in panel.annotators]
    given = [Opinion(it.entities, it.relations) for it in found if it is not None]
    if len(given) < len(found):
        return None
    symmetric = [name for name, it in panel.schema.relation_types.items() if it.symmetric]
    elected = vote(given, panel.needed, symmetric)
    return GoldChunk(
        record.gold.chunk_id,
        mentions(record.text, elected.entities),
        [Relation(source, target, kind) for source, kind, target in elected.relations],
        Origin.PSEUDO,
        record.text,
        JOINED.join(it.engine.model for it in panel.annotators),
        panel.annotators[0].book.sha256,
    )


def _reasons(records: Sequence[Record], answers: Answers, panel: Panel) -> dict[str, int]:
    """Why texts have no usable answer, by the last one."""
    good = answers.good()
    last = {it.key: it for it in answers.all}
    keys = [it.key(record) for it in panel.annotators for record in records]
    missing = [last[key] for key in keys if key not in good and key in last]
    return dict(Counter(it.error or "unknown" for it in missing).most_common())

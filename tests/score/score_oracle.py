"""The scoring rules once more, as slow plain Python that shares no code with the scorer."""

import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass, field

# Unicode's White_Space, which Rust's `\s` means; Python's has four separators more.
SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
MODES = ("name", "name+type", "pair_undirected", "pair", "pair+type", "pair+type+entity_types")


def key(text):
    return SPACE.sub(" ", unicodedata.normalize("NFKC", text).lower()).strip(" ")


@dataclass
class Rules:
    names: dict = field(default_factory=dict)
    entity_types: dict = field(default_factory=dict)
    relation_types: dict = field(default_factory=dict)
    symmetric: set = field(default_factory=set)

    def __post_init__(self):
        for table in ("names", "entity_types", "relation_types"):
            setattr(self, table, {key(a): key(b) for a, b in getattr(self, table).items()})
        self.symmetric = {key(it) for it in self.symmetric}

    def name(self, text):
        return self.names.get(key(text), key(text))

    def entity_type(self, text):
        return self.entity_types.get(key(text), key(text))

    def relation_type(self, text):
        return self.relation_types.get(key(text), key(text))


def alias_map(gold_entities, rules):
    chosen = defaultdict(list)
    for it in gold_entities:
        if it.aliases:
            names = {rules.name(text) for text in [it.text, *it.aliases]} - {""}
            for name in names:
                chosen[name].append(min(names))
    return {name: min(options) for name, options in chosen.items()}


def chunk_sets(entities, relations, rules, aliases):
    """One set of keys per mode."""

    def name(text):
        found = rules.name(text)
        return aliases.get(found, found)

    sets = {mode: set() for mode in MODES}
    types = defaultdict(set)
    for it in entities:
        if name(it.text):
            sets["name"].add(name(it.text))
            sets["name+type"].add((name(it.text), rules.entity_type(it.type)))
            types[name(it.text)].add(rules.entity_type(it.type))
    for it in relations:
        source, target, kind = name(it.source), name(it.target), rules.relation_type(it.type)
        if not source or not target:
            continue
        if kind in rules.symmetric:
            source, target = sorted((source, target))
        first, second = (min(types[end]) if types[end] else None for end in (source, target))
        sets["pair_undirected"].add(tuple(sorted((source, target))))
        sets["pair"].add((source, target))
        sets["pair+type"].add((source, target, kind))
        sets["pair+type+entity_types"].add((source, target, kind, first, second))
    return sets


def counts(gold, answers, rules):
    """(tp, fp, fn) by mode and chunk id; `answers` maps chunk ids to (entities, relations)."""
    found = {}
    for it in gold:
        aliases = alias_map(it.entities, rules)
        truth = chunk_sets(it.entities, it.relations, rules, aliases)
        said = chunk_sets(*answers.get(it.chunk_id, ((), ())), rules, aliases)
        for mode in MODES:
            g, p = truth[mode], said[mode]
            found[mode, it.chunk_id] = (len(g & p), len(p - g), len(g - p))
    return found


def prf(tp, fp, fn):
    precision = tp / (tp + fp) if tp + fp else None
    recall = tp / (tp + fn) if tp + fn else None
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None
    return precision, recall, f1


def micro(counted, mode):
    return prf(*(sum(column) for column in zip(*(v for (m, _), v in counted.items() if m == mode), strict=True)))


def why_missed(relation, others, names):
    """The cause for which a relation is on one side only, seen from the gold."""
    source, target, kind = relation
    if (target, source, kind) in others:
        return "wrong direction"
    if any({source, target} == {it[0], it[1]} for it in others):
        return "wrong type"
    return {
        (True, True): "both found but no edge",
        (False, True): "source missing",
        (True, False): "target missing",
        (False, False): "both missing",
    }[source in names, target in names]


def why_spurious(relation, others, names):
    cause = why_missed(relation, others, names)
    if cause in ("wrong direction", "wrong type"):
        return cause
    return "pair unrelated" if cause == "both found but no edge" else "entity invented"


def confused(gold, said):
    """Types that the two sides of a chunk give to a name that both have: gold's, predicted; two sets of `name+type`."""
    return Counter((g, p) for name, g in gold - said for other, p in said - gold if name == other)


def align(gold, found):
    """The mentions (start, end, type) of a chunk in pairs, the best of all first; and what is left of each side."""
    left, other = sorted(set(gold), key=str), sorted(set(found), key=str)
    pairs = []

    def quality(g, p):
        overlap = min(g[1], p[1]) - max(g[0], p[0])
        return (-(g[:2] == p[:2]), -(g[2] == p[2]), -overlap, g[0], p[0], g[1], p[1], g[2], p[2])

    while True:
        possible = [(quality(g, p), g, p) for g in left for p in other if overlap(g, p)]
        if not possible:
            return pairs, left, other
        _, g, p = min(possible)
        pairs.append((g, p))
        left.remove(g)
        other.remove(p)


def overlap(g, p):
    return None not in (*g, *p) and g[0] < p[1] and p[0] < g[1]


def outcomes(gold, found):
    """What became of the mentions of a chunk: type, predicted type, outcome."""
    pairs, missed, spurious = align(gold, found)
    said = Counter((g[2], p[2], outcome(g, p)) for g, p in pairs)
    said.update((it[2], None, "missed") for it in missed)
    said.update((it[2], it[2], "spurious") for it in spurious)
    return said


def outcome(g, p):
    span, label = g[:2] == p[:2], g[2] == p[2]
    return f"{'same span' if span else 'overlap'}, {'same' if label else 'other'} type"


def schemes(outcomes):
    """Correct, incorrect, partial, missed, spurious of each scheme, from how often each outcome occurred."""
    same, other, over, over_other = (
        outcomes[f"{span}, {label} type"] for span in ("same span", "overlap") for label in ("same", "other")
    )
    rest = outcomes["missed"], outcomes["spurious"]
    return {
        "strict": (same, other + over + over_other, 0, *rest),
        "exact": (same + other, over + over_other, 0, *rest),
        "partial": (same + other, 0, over + over_other, *rest),
        "type": (same + over, other + over_other, 0, *rest),
    }

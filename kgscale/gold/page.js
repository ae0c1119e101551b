"use strict";
// Offsets count characters (code points), as in the gold; strings of this language count UTF-16 units.
const data = JSON.parse(document.getElementById("data").textContent);
const { entity_types: entityTypes, relation_types: relationTypes } = data.schema;
const words = data.words;
const store = `kgscale-review-${data.digest}`;
const at = (id) => document.getElementById(id);
const copy = (value) => JSON.parse(JSON.stringify(value));
const fresh = () => data.chunks.map((it) => ({
  state: "open", entities: copy(it.ground_truth_entities), relations: copy(it.ground_truth_relations),
}));
let review = fresh();
let current = 0;
let chosen = -1; // an item of the chunk: its distinct entities, then its relations
let source = null; // the name that a relation is to start from
const undone = []; // what `u` brings back: [chunk, its review]

try {
  const kept = JSON.parse(localStorage.getItem(store));
  if (kept && kept.length === review.length) review = kept;
} catch { /* a browser that keeps nothing for files still reviews */ }

function keep() {
  try { localStorage.setItem(store, JSON.stringify(review)); } catch { /* as above */ }
}

function told(key, values = {}) {
  return words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function distinct(entities) {
  const found = new Map();
  for (const it of entities) {
    const key = JSON.stringify([it.text, it.type]);
    if (!found.has(key)) found.set(key, { text: it.text, type: it.type, mentions: [] });
    if (it.start !== undefined) found.get(key).mentions.push([it.start, it.end]);
  }
  return [...found.values()];
}

function items() {
  const { entities, relations } = review[current];
  return [...distinct(entities).map((it) => ({ entity: it })), ...relations.map((it) => ({ relation: it }))];
}

function paint(node, type, types) {
  const index = types.indexOf(type);
  if (index >= 0) node.style.backgroundColor = `hsl(${(index * 67 + 200) % 360} 60% var(--light))`;
}

function change(edit) {
  undone.push([current, copy(review[current])]);
  edit(review[current]);
  keep();
  draw();
}

function say(text) { at("message").textContent = text; }

function show(index) {
  current = Math.max(0, Math.min(review.length - 1, index));
  chosen = -1;
  source = null;
  say("");
  draw();
  at("text").scrollTop = 0;
}

function draw() {
  const chunk = data.chunks[current];
  const count = (state) => review.filter((it) => it.state === state).length;
  at("progress").textContent = told("progress", { accepted: count("accepted"), rejected: count("rejected"), open: count("open") });
  at("about").textContent = [
    told("place", { number: current + 1, count: review.length }), chunk.chunk_id, chunk.doc_id, told(review[current].state),
    ...(chunk.annotator ? [told("annotated_by", chunk)] : []),
  ].join(" · ");
  at("list").replaceChildren(...review.map((it, index) => {
    const button = element("button", data.chunks[index].chunk_id, it.state);
    if (index === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => show(index));
    return button;
  }));
  at("list").querySelector("[aria-current]").scrollIntoView({ block: "nearest" });
  drawText(chunk);
  drawTypes();
  drawItems();
}

function drawText(chunk) {
  const characters = Array.from(chunk.text);
  const found = distinct(review[current].entities);
  const spans = found.flatMap((it, index) => it.mentions.map(([start, end]) => ({ start, end, index, type: it.type })));
  const cuts = [...new Set([0, characters.length, ...spans.flatMap((it) => [it.start, it.end])])].sort((a, b) => a - b);
  const parts = [];
  for (let cut = 0; cut + 1 < cuts.length; cut++) {
    const [from, to] = [cuts[cut], cuts[cut + 1]];
    const over = spans.filter((it) => it.start <= from && to <= it.end).sort((a, b) => (a.end - a.start) - (b.end - b.start));
    const part = element(over.length ? "mark" : "span", characters.slice(from, to).join(""));
    part.dataset.start = from;
    if (over.length) {
      paint(part, over[0].type, entityTypes);
      part.title = over.map((it) => it.type).join(", ");
      if (over.some((it) => it.index === chosen)) part.classList.add("chosen");
      part.addEventListener("click", () => { if (getSelection().isCollapsed) choose(over[0].index); });
    }
    parts.push(part);
  }
  at("text").replaceChildren(...parts);
}

function drawTypes() {
  const relation = source !== null || items()[chosen]?.relation;
  const types = relation ? relationTypes : entityTypes;
  at("types").replaceChildren(...types.map((type, index) => {
    const button = element("button", index < 9 ? `${index + 1} ${type}` : type);
    if (!relation) paint(button, type, types);
    // The press must not take the selection of text away.
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => setType(index));
    return button;
  }));
}

function drawItems() {
  const lines = items().map((it, index) => {
    const button = element("button");
    if (it.entity) {
      const type = element("span", it.entity.type, "type");
      paint(type, it.entity.type, entityTypes);
      const places = it.entity.mentions.length;
      button.append(element("bdi", it.entity.text, places ? "" : "absent"), " ", type);
      button.append(places === 1 ? "" : places ? ` × ${places}` : ` ${told("absent")}`);
    } else {
      const { source: from, type, target } = it.relation;
      button.append(element("bdi", from), ` → ${type} → `, element("bdi", target));
    }
    if (index === chosen) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => choose(index));
    return button;
  });
  const entities = distinct(review[current].entities).length;
  const column = (title, its) => {
    const made = element("div");
    made.append(element("h2", `${title} (${its.length})`), ...its);
    return made;
  };
  const columns = [column(told("entities"), lines.slice(0, entities)), column(told("relations"), lines.slice(entities))];
  at("items").replaceChildren(...columns);
  at("items").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  at("text").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
}

function choose(index) {
  chosen = Math.max(0, Math.min(items().length - 1, index));
  draw();
}

function selected() {
  const selection = getSelection();
  if (selection.isCollapsed || !at("text").contains(selection.anchorNode) || !at("text").contains(selection.focusNode)) return null;
  const range = selection.getRangeAt(0);
  const place = (node, offset) => {
    const part = node.nodeType === Node.TEXT_NODE ? node.parentElement : node.childNodes[offset] ?? node;
    if (part.id === "text") return offset ? Array.from(data.chunks[current].text).length : 0;
    const before = node.nodeType === Node.TEXT_NODE ? Array.from(node.data.slice(0, offset)).length : 0;
    return Number(part.dataset.start) + before;
  };
  const characters = Array.from(data.chunks[current].text);
  let [start, end] = [place(range.startContainer, range.startOffset), place(range.endContainer, range.endOffset)];
  while (start < end && !characters[start].trim()) start++;
  while (start < end && !characters[end - 1].trim()) end--;
  return start < end ? { start, end, text: characters.slice(start, end).join("") } : null;
}

function setType(index) {
  const span = selected();
  const item = items()[chosen];
  if (source !== null) {
    const type = relationTypes[index];
    const target = item?.entity?.text;
    if (!type || !target) return say(told("need_target"));
    const made = { source, target, type };
    source = null;
    change((it) => { if (!it.relations.some((other) => JSON.stringify(other) === JSON.stringify(made))) it.relations.push(made); });
    say(told("added", { relation: `${made.source} → ${type} → ${target}` }));
  } else if (span) {
    const type = entityTypes[index];
    if (!type) return undefined;
    getSelection().removeAllRanges();
    change((it) => {
      const there = (other) => other.start === span.start && other.end === span.end && other.type === type;
      if (!it.entities.some(there)) it.entities.push({ text: span.text, type, start: span.start, end: span.end });
    });
    choose(distinct(review[current].entities).findIndex((it) => it.text === span.text && it.type === type));
  } else if (item?.relation) {
    const type = relationTypes[index];
    const number = chosen - distinct(review[current].entities).length;
    if (type) change((it) => { it.relations[number].type = type; });
  } else if (item?.entity) {
    const type = entityTypes[index];
    if (!type) return undefined;
    const { text, type: old } = item.entity;
    change((it) => { for (const one of it.entities) if (one.text === text && one.type === old) one.type = type; });
    choose(distinct(review[current].entities).findIndex((it) => it.text === text && it.type === type));
  } else say(told("need_item_or_text"));
  return undefined;
}

function remove() {
  const item = items()[chosen];
  if (!item) return say(told("need_item"));
  const entities = distinct(review[current].entities).length;
  let lost = 0;
  change((it) => {
    if (item.relation) it.relations.splice(chosen - entities, 1);
    else {
      const { text, type } = item.entity;
      it.entities = it.entities.filter((one) => one.text !== text || one.type !== type);
      if (!it.entities.some((one) => one.text === text)) {
        const left = it.relations.filter((one) => one.source !== text && one.target !== text);
        lost = it.relations.length - left.length;
        it.relations = left;
      }
    }
  });
  chosen = Math.min(chosen, items().length - 1);
  draw();
  return say(lost ? told("relations_gone", { count: lost }) : "");
}

function relate() {
  const entity = items()[chosen]?.entity;
  if (!entity) return say(told("need_source"));
  source = entity.text;
  draw();
  return say(told("from_source", { source }));
}

function decide(state) {
  change((it) => { it.state = state; });
  const order = review.map((_, index) => (current + 1 + index) % review.length);
  const next = order.find((index) => review[index].state === "open");
  if (next !== undefined) return show(next);
  return say(told("all_done"));
}

function undo() {
  const last = undone.pop();
  if (!last) return say(told("nothing_undone"));
  const [index, before] = last;
  review[index] = before;
  keep();
  return show(index);
}

function reviewed() {
  const named = (state) => data.chunks.filter((_, index) => review[index].state === state);
  const chunks = data.chunks.flatMap((it, index) => review[index].state !== "accepted" ? [] : [{
    ...it, ground_truth_entities: review[index].entities, ground_truth_relations: review[index].relations,
  }]);
  return { chunks, rejected: named("rejected").map((it) => it.chunk_id), open: named("open").map((it) => it.chunk_id) };
}

function save() {
  const found = reviewed();
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(found, null, 1)], { type: "application/json" }));
  link.download = "reviewed.json";
  link.click();
  URL.revokeObjectURL(link.href);
  say(told("saved", { chunks: found.chunks.length, rejected: found.rejected.length, open: found.open.length }));
}

const KEYS = {
  a: () => decide("accepted"), x: () => decide("rejected"), f: () => choose(0), d: remove, Delete: remove, r: relate,
  u: undo, s: save, j: () => show(current + 1), k: () => show(current - 1),
  ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen - 1),
  Escape: () => { source = null; getSelection().removeAllRanges(); say(""); draw(); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const action = /^[1-9]$/.test(event.key) ? () => setType(Number(event.key) - 1) : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
at("save").addEventListener("click", save);
show(Math.max(0, review.findIndex((it) => it.state === "open")));

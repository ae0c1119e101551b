"use strict";
// The chunk explorer. Text from the corpus only ever becomes text nodes, so that it cannot become markup.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const { words, methods, hasGold } = read("about");
  const chunks = read("chunks");
  const filters = document.querySelector(".filters");
  const list = document.getElementById("list");
  const article = document.getElementById("chunk");
  const count = document.getElementById("count");

  const SYMBOLS = { matched: "✓", found: "✓", type: "≠", direction: "⇄", missed: "−", spurious: "+", absent: "" };
  const MARKS = ["matched", "type", "missed", "spurious"];

  let shown = [];
  let current = 0;

  const say = (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const grouped = (number) => number.toLocaleString("en-US");

  function el(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // An entity is [name, type, grounded, in gold, cells], a relation [source, type, target, in gold, cells]; there is a
  // cell for each method: [state, what it says in place of the type].
  const cellsOf = (row) => row[4];
  const items = (chunk) => [...chunk.entities, ...chunk.relations];

  for (const chunk of chunks) {
    const names = items(chunk).flatMap((row) => row.filter((it) => typeof it === "string"));
    chunk.haystack = [chunk.id, chunk.doc, chunk.text, ...names].join("\n").normalize("NFKC").toLowerCase();
  }

  function fits(chunk, wanted) {
    if (wanted.picked && !chunk[wanted.picked]) return false;
    if (wanted.search && !chunk.haystack.includes(wanted.search)) return false;
    if (wanted.kind === "status") {
      if (chunk.statuses[wanted.method] === "ok") return false;
      return !wanted.type || items(chunk).some((row) => row[1] === wanted.type);
    }
    if (!wanted.kind && !wanted.type) return true;
    return items(chunk).some((row) => {
      const state = cellsOf(row)[wanted.method][0];
      const type = !wanted.type || row[1] === wanted.type;
      return type && (wanted.kind ? state === wanted.kind : state !== "absent");
    });
  }

  function errorsOf(chunk, method) {
    const errors = chunk.errors[method];
    return errors === 0 ? say("right") : errors === 1 ? say("error") : say("errors", { count: grouped(errors) });
  }

  const statusOf = (chunk, method) => {
    const status = chunk.statuses[method];
    return el("span", { class: `status ${status}` }, status || say("no_row"));
  };

  function wanted() {
    const data = new FormData(filters);
    return {
      method: Number(data.get("method")),
      kind: data.get("kind"),
      type: data.get("type"),
      picked: data.get("picked"),
      search: data.get("search").normalize("NFKC").toLowerCase().trim(),
    };
  }

  const TROUBLE = { dead: 3, failed: 2, "": 2, truncated: 1, ok: 0 };

  function filter() {
    const by = wanted();
    const kept = shown[current];
    shown = chunks.filter((chunk) => fits(chunk, by));
    shown.sort((a, b) =>
      b.errors[by.method] - a.errors[by.method]
      || TROUBLE[b.statuses[by.method]] - TROUBLE[a.statuses[by.method]]
      || a.row - b.row);
    list.replaceChildren(...shown.map((chunk, index) => entry(chunk, index, by.method)));
    count.textContent = shown.length ? say("count", { shown: grouped(shown.length), all: grouped(chunks.length) }) : say("none");
    show(Math.max(0, shown.indexOf(kept)));
  }

  function entry(chunk, index, method) {
    const note = el("small", {});
    if (hasGold) note.append(errorsOf(chunk, method));
    else note.append(say("items", { count: grouped(items(chunk).filter((row) => cellsOf(row)[method][0] === "found").length) }));
    if (chunk.statuses[method] !== "ok") {
      note.append(" · ", statusOf(chunk, method));
    }
    const button = el("button", { type: "button" }, el("b", {}, el("bdi", {}, chunk.id)), note);
    button.addEventListener("click", () => show(index));
    return el("li", {}, button);
  }

  function show(index) {
    list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    current = index;
    if (!shown.length) {
      article.replaceChildren();
      return;
    }
    const button = list.children[index].firstChild;
    button.setAttribute("aria-current", "true");
    // Only the list scrolls: scrollIntoView would move the page as well.
    const top = button.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + button.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + button.offsetHeight - list.clientHeight;
    article.replaceChildren(...drawn(shown[index], wanted().method));
  }

  function drawn(chunk, method) {
    const parts = [head(chunk), about(chunk), el("div", { class: "text", dir: "auto", tabindex: "0" }, ...marked(chunk.text, chunk.spans[method]))];
    if (chunk.cut) parts.push(el("p", { class: "note" }, say("cut", { count: grouped(chunk.cut) })));
    parts.push(legend(method), entityTable(chunk, method), relationTable(chunk, method));
    if (chunk.left) parts.push(el("p", { class: "note" }, say("left", { count: grouped(chunk.left) })));
    return parts;
  }

  function head(chunk) {
    const previous = el("button", { type: "button", "aria-keyshortcuts": "k" }, say("previous"));
    const next = el("button", { type: "button", "aria-keyshortcuts": "j" }, say("next"));
    previous.addEventListener("click", () => move(-1));
    next.addEventListener("click", () => move(1));
    const at = say("chunk_of", { at: grouped(current + 1), all: grouped(shown.length) });
    return el("div", { class: "chunk-head" }, el("h3", {}, el("bdi", {}, chunk.id)), el("div", { class: "steps" }, at, previous, next));
  }

  function about(chunk) {
    const line = el("p", { class: "about" }, `${say("document")} `, el("bdi", {}, chunk.doc), ` · ${say("row")} ${grouped(chunk.row)}`);
    methods.forEach((name, index) => {
      line.append(` · ${name} `, statusOf(chunk, index));
      if (chunk.reasons[index]) line.append(" (", el("bdi", {}, chunk.reasons[index]), ")");
    });
    return line;
  }

  // Spans may overlap: the text is cut at every border, and each piece lies in as many marks as spans cover it.
  function marked(text, spans) {
    const borders = [...new Set([0, text.length, ...spans.flatMap(([start, end]) => [start, end])])].sort((a, b) => a - b);
    const byLength = spans.filter(([start, end]) => end > start).sort((a, b) => b[1] - b[0] - (a[1] - a[0]));
    // A mark that covers others is underlined below theirs.
    const lanes = new Map();
    for (const span of [...byLength].reverse()) {
      const inside = [...lanes].filter(([other]) => other[0] < span[1] && span[0] < other[1]).map(([, lane]) => lane);
      lanes.set(span, Math.min(3, Math.max(-1, ...inside) + 1));
    }
    const parts = [];
    for (let at = 0; at + 1 < borders.length; at += 1) {
      const [from, to] = [borders[at], borders[at + 1]];
      let piece = document.createTextNode(text.slice(from, to));
      const over = byLength.filter(([start, end]) => start <= from && end >= to);
      for (const span of [...over].reverse()) {
        piece = el("mark", { class: `m-${span[3]} lane${lanes.get(span)}`, title: tip(span) }, piece);
      }
      parts.push(piece);
      for (const span of byLength) if (span[1] === to) parts.push(el("span", { class: "tag" }, label(span)));
    }
    return parts;
  }

  const label = ([, , type, state, said]) => `${said ? "" : SYMBOLS[state]} ${type}${said ? ` ≠ ${said}` : ""}`;
  const tip = ([, , type, state]) => `${say(state)}: ${type}`;

  function legend(method) {
    const kinds = hasGold ? MARKS : ["found"];
    return el("ul", { class: "legend", "aria-label": say("legend", { method: methods[method] }) }, ...kinds.map((kind) => el("li", {}, el("mark", { class: `m-${kind}` }, `${SYMBOLS[kind]} ${say(kind)}`))));
  }

  function state([kind, said]) {
    const word = said ? el("bdi", {}, said) : say(kind);
    const symbol = el("i", said ? { role: "img", "aria-label": say(kind) } : { "aria-hidden": "true" }, SYMBOLS[kind]);
    return el("span", { class: `state s-${kind}`, title: say(kind) }, symbol, word);
  }

  function table(kind, first, inGold, rows, empty, method) {
    const title = say(kind);
    if (!rows.length) return el("p", { class: "note" }, empty);
    const gold = hasGold ? [el("th", { scope: "col" }, say("gold"))] : [];
    const heads = methods.map((name, index) => el("th", { scope: "col", class: index === method ? "shown" : "other" }, name));
    const body = rows.map((row) => {
      const goldCell = hasGold ? [el("td", {}, row[3] ? inGold(row) : "–")] : [];
      const cells = cellsOf(row).map((it, index) => el("td", { class: index === method ? "shown" : "other" }, state(it)));
      return el("tr", {}, el("th", { scope: "row" }, ...first(row)), ...goldCell, ...cells);
    });
    const whole = el("table", { class: `${kind === "relation" ? "relations" : "entities"}` }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, title), ...gold, ...heads)), el("tbody", {}, ...body));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, whole);
  }

  function entityTable(chunk, method) {
    const first = ([name, type, grounded, inGold]) => {
      const parts = [el("bdi", {}, name)];
      if (!inGold || !hasGold) parts.push(el("span", { class: "tag" }, type));
      if (!inGold && !grounded) parts.push(el("small", {}, say("ungrounded")));
      return parts;
    };
    return table("entity", first, (row) => row[1], chunk.entities, say("no_entities"), method);
  }

  function relationTable(chunk, method) {
    const first = ([source, type, target]) => [el("bdi", {}, source), " ", el("span", { class: "arrow" }, "– ", el("bdi", {}, type), " →"), " ", el("bdi", {}, target)];
    return table("relation", first, () => "✓", chunk.relations, say("no_relations"), method);
  }

  function move(by) {
    const to = Math.min(Math.max(current + by, 0), shown.length - 1);
    if (to !== current) show(to);
  }

  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", filter);
  list.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    move(by);
    list.children[current]?.firstChild.focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") {
      event.preventDefault();
      filters.elements.search.focus();
    }
  });

  // What is folded is printed too.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const it of folded) it.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const it of folded) it.open = false;
  });

  filter();
})();

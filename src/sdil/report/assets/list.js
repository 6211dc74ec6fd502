// The list of demonstrations: only the rows in sight exist, so thousands stay quick.

const ROW = 40;
const EXTRA = 6;
const names = new Intl.Collator("en", { numeric: true });

// Place in the alphabet, worked out once: comparing names anew at each sort is slow.
const rankBy = (text) => {
  let rank = null;
  return (d) => {
    if (!rank) {
      rank = new Int32Array(demonstrations.length);
      demonstrations.map((one) => one.index)
        .sort((a, b) => names.compare(text(demonstrations[a]), text(demonstrations[b])))
        .forEach((index, place) => { rank[index] = place; });
    }
    return rank[d.index];
  };
};

const COLUMNS = [
  { key: "keep", label: "Keep" },
  { key: "set", label: "Set", value: (d) => (d.set === "clean" ? 0 : 1) },
  { key: "id", label: "Name", value: rankBy((d) => d.id) },
  ...(hasGroups ? [{ key: "group", label: "Group", value: rankBy((d) => d.group ?? "\uffff") }] : []),
  { key: "strip", label: "Scores over time" },
  ...(quality ? [{ key: "well", label: "How well", value: (d) => d.well, limits: "How well" }] : []),
  { key: "mean", label: "Mean", value: (d) => d.mean, limits: "Mean score" },
  { key: "worst", label: "Worst segment", value: (d) => d.worst.mean, limits: "Worst segment" },
  { key: "length", label: "Steps", value: (d) => d.length, limits: "Steps" },
];

const list = { set: "all", text: "", sort: stepsUnknown && quality ? "well" : "mean", down: false,
  limits: {}, shown: [], active: 0 };

function refresh() {
  const column = COLUMNS.find((one) => one.key === list.sort);
  const limited = Object.entries(list.limits).map(([key, range]) => ({
    value: COLUMNS.find((one) => one.key === key).value, ...range,
  }));
  const sign = list.down ? -1 : 1;
  const focused = list.shown[list.active];
  list.shown = demonstrations.filter((d) =>
    (list.set === "all" || d.set === list.set) && (!list.text || d.text.includes(list.text))
    && limited.every(({ value, low, high }) => value(d) >= low && value(d) <= high))
    .sort((a, b) => sign * (column.value(a) - column.value(b)) || a.index - b.index);
  list.active = Math.max(0, list.shown.indexOf(focused));
  byId("count").textContent = `${whole(list.shown.length)} of ${whole(demonstrations.length)}`;
  byId("table").setAttribute("aria-rowcount", list.shown.length + 1);
  for (const head of byId("heads").children) {
    const sorted = head.dataset.key === list.sort;
    if (head.firstChild.tagName !== "BUTTON") continue;
    head.setAttribute("aria-sort", !sorted ? "none" : list.down ? "descending" : "ascending");
  }
  drawRows();
}

// Pictures of rows that were in sight are kept: a key redraws all rows, and these cost most of it.
const strips = new Map();
const KEPT = 400;

function strip(d) {
  if (!strips.has(d)) {
    if (strips.size >= KEPT) strips.clear();
    strips.set(d, drawStrip(d));
  }
  return strips.get(d);
}

function drawStrip(d) {
  const canvas = el("canvas", { width: 220, height: 28, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  const columns = Math.min(d.length, 110);
  for (let c = 0; c < columns; c++) {
    const from = d.from + Math.floor((c * d.length) / columns);
    const to = d.from + Math.max(Math.floor(((c + 1) * d.length) / columns), 1);
    let sum = 0;
    for (let i = from; i < Math.max(to, from + 1); i++) sum += optimality[i];
    pen.fillStyle = scoreColour(sum / Math.max(1, to - from));
    const x = Math.floor((c * 220) / columns);
    pen.fillRect(x, 0, Math.ceil(220 / columns), 28);
  }
  return canvas;
}

function score(value) {
  const bar = el("i", { class: "dot", "aria-hidden": "true" });
  bar.style.background = scoreColour(value);
  return [bar, number(value)];
}

function keepBox(d, active) {
  if (d.set !== "noisy") return el("span", { class: "always", title: "clean: always kept" }, "–");
  const box = el("input", {
    type: "checkbox", "aria-label": `Keep ${d.id}`, tabindex: active ? 0 : -1,
    onchange() { setExcluded(d, !box.checked); },
  });
  box.checked = !choice.excluded.has(d.index);
  return box;
}

const CELLS = {
  keep: (d, active) => [keepBox(d, active)],
  set: (d) => [chip(d)],
  id: (d) => [el("span", { class: "name", title: d.id }, d.id)],
  group: (d) => [d.group ?? "–"],
  strip: (d) => [strip(d)],
  well: (d) => score(d.well),
  mean: (d) => score(d.mean),
  worst: (d) => [...score(d.worst.mean), " ",
    el("span", { class: "range" }, stepRange(d, d.worst))],
  length: (d) => [whole(d.length)],
};

function rowOf(d, place) {
  const active = place === list.active;
  return el("tr", {
    "aria-rowindex": place + 2, "data-place": place, tabindex: active ? 0 : -1,
    "aria-selected": d === timeline.opened ? "true" : "false",
    class: choice.excluded.has(d.index) ? "out" : null,
  }, ...COLUMNS.map(({ key }) => el("td", { class: key, role: "gridcell" },
    ...CELLS[key](d, active))));
}

const gap = (rows) => {
  const row = el("tr", { class: "gap", "aria-hidden": "true" });
  row.style.height = `${rows * ROW}px`;
  return row;
};

function drawRows() {
  const scroller = byId("scroller");
  const body = byId("rows");
  const held = document.activeElement;
  const inside = body.contains(held) || held === scroller;
  const onBox = inside && held.tagName === "INPUT";
  const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - EXTRA);
  const last = Math.min(list.shown.length,
    Math.ceil((scroller.scrollTop + scroller.clientHeight) / ROW) + EXTRA);
  const rows = list.shown.slice(first, last).map((d, r) => rowOf(d, first + r));
  if (!list.shown.length) {
    rows.push(el("tr", { class: "none" }, el("td", { colspan: COLUMNS.length },
      "No demonstration fits these filters.")));
  }
  body.replaceChildren(gap(first), ...rows, gap(list.shown.length - last));
  if (!inside) return;
  const row = body.querySelector(`[data-place="${list.active}"]`);
  const target = (onBox && row?.querySelector("input")) || row || scroller;
  target.focus({ preventScroll: true });
}

// Make a row the one the keyboard is on, and bring it into sight.
function activate(place) {
  if (!list.shown.length) return;
  list.active = Math.max(0, Math.min(list.shown.length - 1, place));
  const scroller = byId("scroller");
  const head = byId("heads").offsetHeight;
  const top = list.active * ROW;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  const below = top + ROW + head - scroller.clientHeight;
  if (below > scroller.scrollTop) scroller.scrollTop = below;
  drawRows();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, Math.floor(byId("scroller").clientHeight / ROW) - 2);
  const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
    Home: -Infinity, End: Infinity };
  const d = list.shown[list.active];
  if (event.key in moves) activate(list.active + moves[event.key]);
  else if (event.key === "Enter" && d) open(d);
  else if (event.key === "x" && d) setExcluded(d, !choice.excluded.has(d.index));
  else return;
  event.preventDefault();
}

function open(d) {
  openDemonstration(d, { focus: true });
  drawRows();
}

function drawHeads() {
  byId("heads").append(...COLUMNS.map(({ key, label, value }) => el("th", {
    scope: "col", class: key, "data-key": key,
  }, !value ? el("span", {}, label) : el("button", {
    type: "button", onclick() {
      list.down = list.sort === key ? !list.down : false;
      list.sort = key;
      byId("scroller").scrollTop = 0;
      list.active = 0;
      refresh();
    },
  }, label))));
}

function drawLimits() {
  byId("limits").append(...COLUMNS.filter((column) => column.limits).map(({ key, limits: label }) => {
    const ends = ["at least", "at most"].map((end) => el("input", {
      type: "number", step: "any", placeholder: end, "aria-label": `${label} ${end}`,
      oninput() {
        const [low, high] = ends.map((input) => input.valueAsNumber);
        list.limits[key] = { low: Number.isNaN(low) ? -Infinity : low,
          high: Number.isNaN(high) ? Infinity : high };
        refresh();
      },
    }));
    return el("div", { class: "limit" }, el("span", {}, label), ...ends);
  }));
}

function startList() {
  byId("table").classList.toggle("both", quality !== null);
  if (list.sort === "well") byId("first").textContent = "Those that went worst come first.";
  drawHeads();
  drawLimits();
  const filters = byId("filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("change", (event) => {
    if (event.target.name !== "set") return;  // a search that lost the focus has changed nothing
    list.set = new FormData(filters).get("set");
    byId("scroller").scrollTop = 0;
    refresh();
  });
  byId("search").addEventListener("input", (event) => {
    list.text = event.target.value.trim().toLowerCase();
    byId("scroller").scrollTop = 0;
    refresh();
  });
  const scroller = byId("scroller");
  scroller.tabIndex = -1;
  let pending = false;
  scroller.addEventListener("scroll", () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      drawRows();
    });
  });
  scroller.addEventListener("keydown", onKey);
  byId("rows").addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-place]");
    if (!row) return;
    list.active = Number(row.dataset.place);
    if (event.target.closest("td.keep")) return;
    row.focus({ preventScroll: true });
    open(list.shown[list.active]);
  });
  new ResizeObserver(drawRows).observe(scroller);
  onExcluded.push(drawRows);
  onTheme(() => {
    strips.clear();  // another theme has other colours
    drawRows();
  });
  refresh();
}

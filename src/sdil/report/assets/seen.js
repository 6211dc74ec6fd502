// What was seen, done and paid at each step: a row per feature, and the way through a place.

const SHOWN_AT_FIRST = 4;
const width = featureNames.length;
const rowsToSee = [
  ...featureNames.map((name, f) => ({ name, at: (i) => features[i * width + f] })),
  ...(rewards ? [{ name: "reward", at: (i) => rewards[i] }] : []),
];
const shownRows = new Set(rowsToSee.map((row, r) => r)
  .filter((r) => r < SHOWN_AT_FIRST || rowsToSee[r].name === "reward"));

const short = (x) => (Number.isFinite(x)
  ? String(Number(x.toPrecision(3))).replace("-", "−") : "–");

// One row: its name, a line over the steps, and its value at the cursor.
function seenRow(d, row) {
  const values = Array.from({ length: d.length }, (_, t) => row.at(d.from + t));
  const known = values.filter(Number.isFinite);
  const low = Math.min(...known);
  const high = Math.max(...known);
  const y = (v) => (high > low ? 27 - (24 * (v - low)) / (high - low) : 15);
  let path = "";
  values.forEach((v, t) => {
    if (!Number.isFinite(v)) return;
    const begins = t === 0 || !Number.isFinite(values[t - 1]);
    path += `${begins ? "M" : "L"}${t + 0.5} ${y(v).toFixed(2)}`;
    if (d.length === 1) path += `h.5`;
  });
  const value = el("span", { class: "value" });
  const line = svg("svg", { viewBox: `0 0 ${d.length} 30`, preserveAspectRatio: "none",
    role: "img", "aria-label": `${row.name}, ${short(low)} to ${short(high)}` },
  svg("path", { d: path, "vector-effect": "non-scaling-stroke" }));
  const node = el("div", { class: "seen-row" },
    el("p", {}, el("span", { class: "name" }, row.name), value),
    el("div", { class: "seen-line" }, line, el("i", { class: "mark" })));
  return { node, at(t) {
    value.textContent = short(values[t]);
    node.querySelector(".mark").style.left = `${(100 * (t + 0.5)) / d.length}%`;
  } };
}

// The way through two features that are a place, each step in the colour of its score.
function placeMap(d) {
  const point = (t) => [place[2 * (d.from + t)], place[2 * (d.from + t) + 1]];
  const points = Array.from({ length: d.length }, (_, t) => point(t));
  const ends = [0, 1].map((axis) => {
    let low = Infinity;
    let high = -Infinity;
    for (let i = axis; i < place.length; i += 2) {
      low = Math.min(low, place[i]);
      high = Math.max(high, place[i]);
    }
    return [low, high > low ? high : low + 1];
  });
  const to = ([x, y]) => [100 * (x - ends[0][0]) / (ends[0][1] - ends[0][0]),
    100 - 100 * (y - ends[1][0]) / (ends[1][1] - ends[1][0])];
  const lines = points.slice(1).map((next, t) => {
    const [x1, y1] = to(points[t]);
    const [x2, y2] = to(next);
    return svg("line", { x1, y1, x2, y2, stroke: scoreColour(optimality[d.from + t]) });
  });
  const [x, y] = to(points[0]);
  const marker = svg("circle", { class: "here", r: 2.4, cx: x, cy: y });
  const names = (about.place ?? []).join(" and ");
  const map = svg("svg", { class: "floor place", viewBox: "-4 -4 108 108", role: "img",
    "aria-label": `The way through ${names}, by score; the dot is the step under the cursor` },
  svg("title", {}, names), ...lines, svg("circle", { class: "start", r: 1.8, cx: x, cy: y }), marker);
  return { node: map, at(t) {
    const [cx, cy] = to(points[t]);
    marker.setAttribute("cx", cx);
    marker.setAttribute("cy", cy);
  } };
}

// All rows that are chosen, and the choice itself.
const seenRows = { shown: [] };
function showSeen(d) {
  seenRows.shown = [...shownRows].sort((a, b) => a - b).map((r) => seenRow(d, rowsToSee[r]));
  byId("seen-rows").replaceChildren(...seenRows.shown.map((row) => row.node));
}

function seenPanel() {
  if (!rowsToSee.length) return null;
  const box = (row, r) => el("label", {}, el("input", {
    type: "checkbox", checked: shownRows.has(r), onchange(event) {
      if (event.target.checked) shownRows.add(r); else shownRows.delete(r);
      showSeen(timeline.opened);
      seenRows.shown.forEach((shown) => shown.at(timeline.at));
    },
  }), row.name);
  return el("div", { class: "seen" }, el("div", { id: "seen-rows" }),
    el("details", { class: "limits" }, el("summary", {}, "Choose what to show"),
      el("div", { class: "seen-choice" }, ...rowsToSee.map(box))));
}

// One demonstration, step by step.

const timeline = { opened: null, at: 0, parts: true, viewer: null };

const chip = (d) => el("span", { class: `chip ${d.set}` }, d.set);

// How badly the next state fits the action, in tenths; -1 where it is not known. It says nothing of
// how good a step is, so that its colour is neither that of good nor that of bad.
const misfits = integrity && Int8Array.from(integrity, (fit) =>
  (Number.isNaN(fit) ? -1 : Math.round(10 * (1 - fit))));
const misfitColour = (tenths) => mix(scheme().middle, scheme().misfit, tenths / 10);

// Ribbons under the scores: each a name and runs with a colour and, where there is room, a label.
function ribbons(d) {
  const to = d.from + d.length;
  const rows = [];
  if (skillOf) {
    rows.push({ name: "skill", runs: runs(skillOf, d.from, to).map((run) => ({
      ...run, colour: paletteColour(run.value), label: `${run.value}`,
    })) });
  }
  rows.unshift({ name: "action", runs: runs(actions, d.from, to).map((run, r) => ({
    ...run, colour: mix(scheme().middle, scheme().text, r % 2 ? 0.22 : 0.1),
    label: actionNames[run.value] ?? `${run.value}`,
  })) });
  if (good !== null && good.subarray(d.from, to).some((g) => g >= 0)) {
    rows.push({ name: "truth", runs: runs(good, d.from, to).filter((run) => run.value >= 0)
      .map((run) => ({ ...run, colour: run.value ? scheme().good : scheme().bad,
        label: run.value ? "good" : "bad" })) });
  }
  if (misfits && misfits.subarray(d.from, to).some((tenths) => tenths >= 0)) {
    rows.push({ name: "fits", runs: runs(misfits, d.from, to).filter((run) => run.value >= 0)
      .map((run) => ({ ...run, colour: misfitColour(run.value), label: "" })) });
  }
  if (d.set === "noisy") {
    rows.push({ name: "kept", runs: keptRuns(d).map(([start, stop]) => ({
      start, stop, colour: mix(scheme().text, scheme().surface, 0.35), label: "",
    })) });
  }
  return rows.reverse();
}

function ribbonShapes(d, rows) {
  const shapes = [];
  const annotations = [];
  rows.forEach((row, r) => row.runs.forEach((run) => {
    shapes.push({
      type: "rect", xref: "x", yref: "y2", x0: run.start - 0.5, x1: run.stop - 0.5,
      y0: r + 0.12, y1: r + 0.88, fillcolor: run.colour,
      line: { width: 1, color: scheme().surface },
    });
    if (run.label && (run.stop - run.start) / d.length > 0.017 * run.label.length + 0.015) {
      annotations.push({
        xref: "x", yref: "y2", x: (run.start + run.stop - 1) / 2, y: r + 0.5, showarrow: false,
        text: run.label, font: { size: 11, color: inkOn(run.colour) },
      });
    }
  }));
  return { shapes, annotations };
}

const keepLine = () => ({
  type: "line", x0: 0, x1: 1, xref: "paper", y0: choice.threshold, y1: choice.threshold,
  line: { color: scheme().muted, width: 1, dash: "dot" },
});

function timelineShapes(d) {
  const rows = ribbons(d);
  const { shapes, annotations } = ribbonShapes(d, rows);
  return { rows, annotations,
    shapes: [...(d.set === "noisy" ? [keepLine()] : []), ...shapes] };
}

function timelineChart() {
  const d = timeline.opened;
  const x = Array.from({ length: d.length }, (_, t) => t);
  const cut = (values) => Array.from(values.subarray(d.from, d.from + d.length));
  const score = cut(optimality);
  const base = { type: "scatter", x };
  const traces = [];
  if (spread) {
    const width = cut(spread);
    const edge = { ...base, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    traces.push({ ...edge, y: score.map((s, t) => s - width[t]), showlegend: false },
      { ...edge, y: score.map((s, t) => s + width[t]), fill: "tonexty", name: "spread",
        fillcolor: `${scheme().accent}2b` });
  }
  if (timeline.parts) {
    parts.forEach((part, p) => traces.push({
      ...base, y: cut(part.values), mode: "lines", name: `by ${asText(part.name)}`, hoverinfo: "skip",
      line: { width: 1, color: signalColour(p), dash: "solid" }, opacity: 0.85,
    }));
  }
  if (quality) {
    traces.push({
      ...base, y: cut(quality), mode: "lines", name: "how well", hoverinfo: "skip",
      line: { width: 1.5, color: scheme().text, dash: "dash" },
    });
  }
  traces.push({
    ...base, y: score, mode: "lines+markers", name: "score",
    line: { color: scheme().accent, width: 2 },
    marker: { size: 7, color: score.map(scoreColour), line: { width: 1, color: scheme().accent } },
    hovertemplate: "step %{x}: %{y:.2f}<extra></extra>",
  });
  const { rows, shapes, annotations } = timelineShapes(d);
  if (rows.length) {  // an axis is only drawn right if something lies on it
    traces.push({ type: "scatter", x: [0], y: [0.5], yaxis: "y2", mode: "markers",
      marker: { opacity: 0 }, hoverinfo: "skip", showlegend: false });
  }
  if (rows.some((row) => row.name === "fits")) {  // what its colour means
    traces.push({ type: "scatter", x: [null], y: [null], mode: "markers", hoverinfo: "skip",
      name: "does not fit", marker: { symbol: "square", size: 10, color: misfitColour(10) } });
  }
  const room = rows.length * 0.085;
  const above = spread || parts.length || quality || misfits ? 44 : 8;
  return {
    traces, shapes, annotations, hovermode: "x",
    showlegend: traces.filter((trace) => trace.name).length > 1,
    margin: { l: 46, r: 9, t: above, b: 42 },
    xaxis: { range: [-0.5, d.length - 0.5], anchor: rows.length ? "y2" : "y", title: "step",
      zeroline: false, showgrid: false, automargin: false, ...(d.length < 8 ? { dtick: 1 } : {}) },
    yaxis: { automargin: false, range: [-1.05, 1.05], domain: [rows.length ? room + 0.04 : 0, 1], dtick: 0.5 },
    ...(rows.length ? { yaxis2: { domain: [0, room], range: [0, rows.length], showgrid: false,
      zeroline: false, tickvals: rows.map((_, r) => r + 0.5), ticktext: rows.map((row) => row.name),
      ticks: "", automargin: false } } : {}),
  };
}

function told(d, t) {
  const i = d.from + t;
  const words = [
    ["step", `${t} of 0–${d.length - 1}`],
    ...(numbering ? [["frame in the source", String(frameOf(d, t))]] : []),
    ["action", actionNames[actions[i]] ?? String(actions[i])],
    ["score", number(optimality[i]) + (spread ? ` ± ${number(spread[i])}` : "")],
  ];
  if (timeline.parts) words.push(...parts.map((part) => [`by ${part.name}`, number(part.values[i])]));
  if (quality) words.push(["how well", number(quality[i])]);
  if (integrity) words.push(["next state fits", number(integrity[i])]);
  if (skillOf) words.push(["skill", String(skillOf[i])]);
  if (good !== null && good[i] >= 0) words.push(["truth", good[i] ? "good" : "bad"]);
  if (d.set === "noisy") words.push(["kept", isKept(d, t) ? "yes" : "no"]);
  return words;
}

// The step under the cursor: its frame or place, and what is known of it.
function moveCursor(t) {
  const d = timeline.opened;
  timeline.at = Math.max(0, Math.min(d.length - 1, t));
  const slider = byId("cursor");
  slider.value = timeline.at;
  slider.setAttribute("aria-valuetext",
    told(d, timeline.at).map(([name, value]) => `${name} ${value}`).join(", "));
  byId("told").replaceChildren(...told(d, timeline.at).flatMap(([name, value]) => [
    el("div", {}, el("dt", {}, name), el("dd", {}, value))]));
  timeline.viewer.at(timeline.at);
  seenRows.shown.forEach((row) => row.at(timeline.at));
  byId("cursor-line").style.setProperty("--at", (timeline.at + 0.5) / d.length);
}

// What there is to look at: the way on the map, the rendered frame, what cameras saw, or nothing.
function viewerOf(d) {
  const views = [];
  const frames = record.frames[`${d.set}/${d.id}`];
  if (frames?.length) {
    const image = el("img", { class: "frame", alt: "The frame at the cursor", src: frames[0] });
    views.push({
      node: image,
      at(t) { image.src = frames[Math.floor((t * frames.length) / d.length)]; },
    });
  }
  if (hasFilm) views.push(filmView(d));
  if (walls && positions) views.unshift(wayMap(d));
  else if (place) views.unshift(placeMap(d));
  return { nodes: views.map((view) => view.node), at: (t) => views.forEach((view) => view.at(t)) };
}

function showViewer() {
  timeline.viewer = viewerOf(timeline.opened);
  byId("viewer").replaceChildren(...timeline.viewer.nodes);
  byId("viewer").hidden = !timeline.viewer.nodes.length;
}

function openDemonstration(d, { focus = false } = {}) {
  timeline.opened = d;
  timeline.at = Math.min(d.worst.start, d.length - 1);
  byId("timeline-name").replaceChildren(d.id);
  byId("timeline-facts").replaceChildren(chip(d), ...[
    d.group, count(d.length, "step"), quality ? `how well ${number(d.well)}` : null,
    `mean ${number(d.mean)}`,
    `worst segment ${number(d.worst.mean)}, ${stepWord}${
      d.worst.stop - d.worst.start > 1 ? "s" : ""} ${stepRange(d, d.worst)}`,
  ].filter((text) => text !== null).map((text) => el("span", {}, text)));
  byId("leave-out").closest("label").hidden = d.set !== "noisy";
  byId("leave-out").checked = choice.excluded.has(d.index);
  byId("cursor").max = d.length - 1;
  showViewer();
  if (rowsToSee.length) showSeen(d);
  moveCursor(timeline.at);
  redraw(byId("timeline-chart"));
  if (focus) {
    const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const box = byId("timeline").getBoundingClientRect();
    if (box.top > innerHeight * 0.6 || box.bottom < 120) {
      byId("timeline").scrollIntoView({ block: "start", behavior: reduced ? "auto" : "smooth" });
    }
  }
}

function startTimeline(first) {
  const box = el("div", { class: "chart", id: "timeline-chart" });
  const under = el("div", { class: "under" }, el("div", { id: "viewer" }),
    el("dl", { class: "told", id: "told" }));
  byId("timeline").append(
    el("header", {}, el("h3", { id: "timeline-name" }), el("p", { class: "line", id: "timeline-facts" })),
    el("div", { class: "switches" },
      el("label", { hidden: !parts.length }, el("input", {
        type: "checkbox", id: "parts", checked: true, onchange(event) {
          timeline.parts = event.target.checked;
          moveCursor(timeline.at);
          redraw(box);
        },
      }), "Show what the score is made of"),
      el("label", {}, el("input", {
        type: "checkbox", id: "leave-out", onchange(event) {
          setExcluded(timeline.opened, event.target.checked);
        },
      }), "Leave this one out")),
    el("div", { class: "plot" }, box, el("i", { class: "mark", id: "cursor-line" })),
    el("input", { type: "range", id: "cursor", min: 0, value: 0, "aria-label": "Step",
      oninput(event) { moveCursor(Number(event.target.value)); } }),
    // rows of what was seen lie under the steps, but a picture is looked at beside the cursor
    ...(hasFilm ? [under, seenPanel()] : [seenPanel(), under]).filter(Boolean),
  );
  openDemonstration(first);
  chart(box, "Score of each step, with skills as a ribbon", timelineChart);
  box.addEventListener("drawn", () => {
    const follow = (event) => moveCursor(Math.round(event.points[0].x));
    // the cursor is as high as the plot: a legend of several lines pushes that down
    const fit = () => {
      const { t, b } = box._fullLayout._size;
      byId("cursor-line").style.top = `${t}px`;
      byId("cursor-line").style.bottom = `${b}px`;
    };
    box.on("plotly_afterplot", fit);
    fit();
    box.on("plotly_hover", follow);
    box.on("plotly_click", follow);
  });
  onChoice.push(() => moveCursor(timeline.at));
  onExcluded.push(() => {
    byId("leave-out").checked = choice.excluded.has(timeline.opened.index);
  });
  follow(box, () => {
    const d = timeline.opened;
    if (d.set !== "noisy") return;
    const { shapes, annotations } = timelineShapes(d);
    Plotly.relayout(box, { shapes, annotations });
  });
  onTheme(() => {
    showViewer();
    timeline.viewer.at(timeline.at);
  });
}

// Plotly, started when the first chart comes into view, and colours that follow the theme.

// One meaning per colour: blue is clean and orange noisy, green is good and vermilion bad; skills
// have colours of their own, and so have signals. What belongs to the page itself is slate.
const PALETTE = [
  "#332288", "#AA4499", "#DDCC77", "#882255", "#999933", "#CC6677", "#661100", "#8C8C8C",
];
const SIGNALS = ["#56B4E9", "#b8860b", "#7f6fb3", "#d17fb0", "#5f8f8f", "#8C8C8C"];
const signalColour = (index) => SIGNALS[index % SIGNALS.length];

// Lighter on dark ground. Past eight the colours come again, paler; every skill is named beside its
// colour anyway.
function paletteColour(index) {
  const colour = PALETTE[index % PALETTE.length];
  const again = index < PALETTE.length ? colour : mix(colour, "#ffffff", 0.45);
  return isDark() ? mix(again, "#ffffff", 0.32) : again;
}

function mix(from, to, share) {
  const channel = (at) => {
    const a = parseInt(from.slice(at, at + 2), 16);
    const b = parseInt(to.slice(at, at + 2), 16);
    return Math.round(a + (b - a) * share).toString(16).padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

// Black or white, whichever reads better on `colour`.
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.3 * r + 0.59 * g + 0.11 * b > 0.55 ? "#14181c" : "#ffffff";
}

// Scores: vermilion for bad, the surface's grey for neither, green for good.
function scoreColour(score) {
  const ends = scheme();
  const strength = Math.min(1, Math.abs(score));
  return mix(ends.middle, score < 0 ? ends.bad : ends.good, strength ** 0.8);
}

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const LIGHT = {
  text: "#1c2127", muted: "#5b6570", line: "#e1e4e8", surface: "#ffffff", clean: "#0072B2",
  noisy: "#E69F00", accent: "#3f5168", good: "#009E73", bad: "#D55E00", middle: "#e9e9e6",
  misfit: "#c9b800",
};
const DARK = {
  text: "#e7eaee", muted: "#9aa5b1", line: "#333b44", surface: "#1b2026", clean: "#56B4E9",
  noisy: "#E69F00", accent: "#a9bcd6", good: "#2fbf95", bad: "#E8702A", middle: "#3a4149",
  misfit: "#F0E442",
};
const scheme = () => (isDark() ? DARK : LIGHT);

// Plotly reads some markup in its text: names from data must not be taken for any.
const asText = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function layout(extra = {}) {
  const colours = scheme();
  const axis = {
    gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.line,
    tickfont: { color: colours.muted, size: 12 }, automargin: false, fixedrange: true, ticks: "",
    title: { font: { color: colours.muted, size: 12 }, standoff: 8 },
  };
  const { xaxis, yaxis, yaxis2, constantKeys = false, ...rest } = extra;
  const merged = (own) => ({
    ...axis, ...own, title: { ...axis.title, text: own?.title ?? "" },
  });
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colours.text },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 54, r: 8, t: 36, b: 44 }, showlegend: true, dragmode: false,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 },
      traceorder: "normal", itemsizing: constantKeys ? "constant" : "trace", itemclick: false, itemdoubleclick: false },
    hoverlabel: { bgcolor: colours.surface, bordercolor: colours.line,
      font: { color: colours.text } },
    xaxis: merged(xaxis), yaxis: merged(yaxis),
    ...(yaxis2 ? { yaxis2: merged(yaxis2) } : {}),
    ...rest,
  };
}

let started = false;
function startPlotly() {
  if (started) return;
  started = true;
  const script = document.createElement("script");
  script.textContent = byId("plotly").textContent;
  document.head.append(script);
}

// Charts are drawn one per task, when seen, so that the page answers in between.
const waiting = new Map();
const drawn = new Map();
const queue = [];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const build = waiting.get(entry.target);
    if (!entry.isIntersecting || !build) continue;
    seen.unobserve(entry.target);
    waiting.delete(entry.target);
    queue.push([entry.target, build]);
    if (queue.length === 1) setTimeout(drawNext, 0);
  }
}, { rootMargin: "100px" });

function drawNext() {
  const [node, build] = queue[0];
  drawChart(node, build);
  queue.shift();
  if (queue.length) setTimeout(drawNext, 0);
}

function drawChart(node, build) {
  startPlotly();
  const { traces, ...rest } = build();
  drawn.set(node, build);
  Plotly.react(node, traces, layout(rest), { displayModeBar: false, responsive: true });
  if (!node.dataset.drawn) {
    node.dataset.drawn = "yes";
    node.dispatchEvent(new Event("drawn"));
  }
}

// A chart in `node`; `build` gives its traces and layout, and is asked again on a change of theme.
function chart(node, label, build) {
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", label);
  waiting.set(node, build);
  seen.observe(node);
  return node;
}

// Charts that follow the choice do so once it rests, and only in sight: a slider must not wait.
const followers = new Map();
const late = new Set();
const inSight = new Set();
const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inSight.add(target); else inSight.delete(target);
  }
  catchUp();
});

function catchUp() {
  for (const node of late) {
    if (!inSight.has(node)) continue;
    late.delete(node);
    if (drawn.has(node)) followers.get(node)();
  }
}

function follow(node, update) {
  followers.set(node, update);
  sight.observe(node);
}

let resting = null;
function followChoice() {
  for (const node of followers.keys()) late.add(node);
  clearTimeout(resting);
  resting = setTimeout(catchUp, 120);
}

const redraw = (node) => {
  if (drawn.has(node)) drawChart(node, drawn.get(node));
};

function panel(title, note, content, extra = "") {
  return el("div", { class: `panel ${extra}` }, el("h3", {}, title),
    note ? el("p", { class: "note" }, note) : null, content);
}

function chartPanel(title, note, label, build, extra = "") {
  return panel(title, note, chart(el("div", { class: "chart" }), label, build), extra);
}

const themed = [];
const onTheme = (redrawIt) => themed.push(redrawIt);

function startTheme() {
  const button = byId("theme");
  const apply = () => {
    const next = isDark() ? "light" : "dark";
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${next} colours`);
    for (const node of drawn.keys()) redraw(node);
    for (const redrawIt of themed) redrawIt();
  };
  try {
    const kept = localStorage.getItem("sdil-theme");
    if (kept) document.documentElement.dataset.theme = kept;
  } catch { /* a browser may refuse storage to files: the choice lasts until the page is closed */ }
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("sdil-theme", next); } catch { /* as above */ }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

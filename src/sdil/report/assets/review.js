"use strict";
// Text from data reaches the page through textContent only.
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let state = null, episode = null, question = -1, list = 0, cursor = 0;

async function ask(path, said) {
  const options = said === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(said),
  };
  let answer, found;
  try {
    answer = await fetch(path, options);
    found = await answer.json();
  } catch {
    throw new Error("sdil review does not answer: it was ended. Answers before this are kept.");
  }
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function say(text, bad = false) {
  at("status").textContent = text;
  at("status").toggleAttribute("data-bad", bad);
}

function fill(table, rows) {
  table.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    }));
    return row;
  }));
}

const number = (x) => x === null || x === undefined ? "–" : String(Math.round(x * 1000) / 1000);

function saidOf(q) {
  const found = state.labels.findLast((l) => l.set === "noisy" && l.episode === q.episode
    && l.first_step === q.first_step && l.last_step === q.last_step && l.who === state.who);
  return found?.label ?? "";
}

function showState() {
  if (state.list !== list) [question, list] = [-1, state.list];  // other questions, by the answers so far
  at("questions").replaceChildren(...state.questions.map((q, i) => {
    const item = document.createElement("li");
    const said = saidOf(q);
    item.textContent = `${q.episode}, ${q.first_step} to ${q.last_step}${said && `: ${said}`}`;
    item.dataset.said = said;
    item.setAttribute("aria-current", String(i === question));
    item.addEventListener("click", () => run(() => go(i)));
    return item;
  }));
  at("count").textContent = String(state.labels.length);
  at("undo").disabled = !state.can_undo;
  fill(at("answers"), state.labels.slice(-8).reverse().map((l) =>
    [l.episode, `${l.first_step} to ${l.last_step}`, l.label, l.who, l.note]));
  fill(at("agreement"), state.agreement.map((a) =>
    [`${a.one} and ${a.other}`, `${a.steps} steps`, a.kappa === null ? "too little" : `kappa ${number(a.kappa)}`]));
}

function draw() {
  const svg = at("timeline"), n = episode.optimality.length, width = 1000, height = 160;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const make = (kind, facts) => {
    const made = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(facts)) made.setAttribute(name, value);
    return made;
  };
  const step = width / n, [first, last] = span();
  const parts = [make("rect", { x: first * step, y: 0, width: Math.max(last - first + 1, 0) * step, height, fill: "var(--mark)" })];
  episode.optimality.forEach((score, i) => {
    const tall = Math.max(Math.abs(score ?? 0) * 75, 1), good = score > 0;
    parts.push(make("rect", { x: i * step + step * .1, width: step * .8, y: good ? 80 - tall : 80, height: tall,
      fill: good ? "var(--good)" : "var(--bad)" }));
  });
  parts.push(make("rect", { x: cursor * step, y: 0, width: step, height, fill: "none", stroke: "currentColor", "vector-effect": "non-scaling-stroke" }));
  svg.replaceChildren(...parts);
  at("cursor").textContent = String(cursor);
  const rows = [["action", episode.actions[cursor]], ["score", number(episode.optimality[cursor])]];
  for (const [name, values] of Object.entries(episode.parts)) rows.push([`by ${name}`, number(values[cursor])]);
  if (episode.rewards) rows.push(["reward", number(episode.rewards[cursor])]);
  (episode.seen[cursor] ?? []).forEach((value, i) => rows.push([episode.features[i], number(value)]));
  fill(at("seen"), rows);
  drawFrame();
  at("span-title").textContent = `${episode.episode}, steps ${first} to ${last}`;
}

// What cameras saw: a strip holds the pictures of an episode row by row.
const sheet = new Image();
sheet.addEventListener("load", () => drawFrame());

function showFilm() {
  const { strips, said } = episode.film, cameras = Object.keys(strips);
  at("film").hidden = !cameras.length && !said;
  at("frame").hidden = !cameras.length;
  at("camera-choice").hidden = cameras.length < 2;
  at("film-note").textContent = said;
  if (!cameras.length) return;
  const before = at("camera").value;
  at("camera").replaceChildren(...cameras.map((name) => new Option(name || "camera", name)));
  at("camera").value = cameras.includes(before) ? before : cameras[0];
  showCamera();
}

function showCamera() {
  const strip = episode.film.strips[at("camera").value], frame = at("frame");
  frame.width = strip.width;
  frame.height = strip.height;
  frame.classList.toggle("photo", !strip.drawn);
  at("film-note").textContent = strip.every > 1 ? `a picture every ${strip.every} steps` : "";
  sheet.src = strip.image;
  drawFrame();
}

function drawFrame() {
  const strip = episode.film.strips[at("camera").value];
  if (!strip) return;
  const i = Math.min(Math.floor(cursor / strip.every), strip.count - 1), { width, height } = strip;
  at("frame").dataset.picture = i;
  if (!sheet.complete || !sheet.naturalWidth) return;
  at("frame").getContext("2d").drawImage(sheet, (i % strip.columns) * width,
    Math.floor(i / strip.columns) * height, width, height, 0, 0, width, height);
}

const span = () => [Number(at("first").value), Number(at("last").value)];

async function open(name, first, last) {
  episode = await ask(`episode?number=${state.episodes.indexOf(name)}`);
  at("episode").value = name;
  at("first").value = first;
  at("last").value = last ?? episode.optimality.length - 1;
  cursor = first;
  showFilm();
  draw();
}

async function go(i) {
  if (i < 0 || i >= state.questions.length) return;
  [question, list] = [i, state.list];
  const q = state.questions[i];
  at("why").textContent = `Question ${i + 1} of ${state.questions.length}: ${q.why}.`;
  await open(q.episode, q.first_step, q.last_step);
  showState();
}

async function label(said) {
  const [first, last] = span();
  state = await ask("label", { set: "noisy", episode: episode.episode, first_step: first, last_step: last,
    label: said, note: at("note").value });
  at("note").value = "";
  say(`${episode.episode}, ${first} to ${last}: ${said}; kept`);
  showState();
  const next = state.questions.findIndex((q, i) => i > question && !saidOf(q));
  if (next >= 0) await go(next);
}

async function undo() {
  state = await ask("undo", {});
  say("the last answer is taken back");
  showState();
}

async function rejudge() {
  say("judging again…");
  state = await ask("rejudge", {});
  const c = state.changed, percent = (x) => x === null ? "unknown" : `${Math.round(100 * x)}%`;
  const table = document.createElement("table"), lead = document.createElement("p");
  lead.textContent = `${c.turned} of ${c.steps} noisy steps changed sides; good steps: ${percent(c.good_share[0])} before, `
    + `${percent(c.good_share[1])} now. Heard: ${c.heard.join(", ") || "nothing"}.`;
  fill(table, c.most.map((m) => [m.episode, `${number(m.before)} → ${number(m.after)}`, `${m.turned} steps`]));
  at("changed").replaceChildren(lead, table);
  say("judged again; there are new questions");
  await go(0);
}

function exportLabels() {
  const columns = ["set", "episode", "first_step", "last_step", "label", "who", "when", "note"];
  const quote = (x) => `"${String(x).replaceAll('"', '""')}"`;
  const lines = [columns.join(","), ...state.labels.map((l) => columns.map((c) => quote(l[c])).join(","))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = "labels.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

let busy = Promise.resolve();
function run(work) {  // one thing after the other: no key is lost while an answer is being kept
  busy = busy.then(work).catch((error) => say(error.message, true));
  return busy;
}

const move = (by) => { cursor = Math.min(Math.max(cursor + by, 0), episode.optimality.length - 1); draw(); };
const KEYS = {
  g: () => label("good"), b: () => label("bad"), u: () => label("unsure"), z: undo, r: rejudge,
  j: () => go(question + 1), k: () => go(question - 1),
  ArrowLeft: () => move(-1), ArrowRight: () => move(1),
  "[": () => { at("first").value = cursor; draw(); }, "]": () => { at("last").value = cursor; draw(); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "n") { event.preventDefault(); at("note").focus(); return; }
  if (!KEYS[event.key]) return;
  event.preventDefault();
  run(KEYS[event.key]);
});
for (const button of document.querySelectorAll("[data-label]"))
  button.addEventListener("click", () => run(() => label(button.dataset.label)));
at("undo").addEventListener("click", () => run(undo));
at("rejudge").addEventListener("click", () => run(rejudge));
at("export").addEventListener("click", exportLabels);
at("episode").addEventListener("change", () => run(() => open(at("episode").value, 0)));
at("camera").addEventListener("change", () => { showCamera(); at("camera").blur(); });
for (const id of ["first", "last"]) at(id).addEventListener("change", draw);

run(async () => {
  state = await ask("state");
  at("episode").replaceChildren(...state.episodes.map((name) => new Option(name, name)));
  showState();
  if (state.questions.length) await go(Math.max(state.questions.findIndex((q) => !saidOf(q)), 0));
  else if (state.episodes.length) await open(state.episodes[0], 0);
  document.documentElement.dataset.ready = "";
});

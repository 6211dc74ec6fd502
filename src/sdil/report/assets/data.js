// The record as the scripts use it: typed arrays, and what is derived for each demonstration.

const TYPES = {
  i1: Int8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array,
};

function unpack(packed) {
  if (!packed) return null;
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new TYPES[packed.type](bytes.buffer);
}

const record = JSON.parse(document.getElementById("data").textContent);
const about = record.about;
const actionNames = record.actions;
const ids = record.episodes.ids;
const groups = record.episodes.groups;
const isClean = unpack(record.episodes.clean);
const offsets = unpack(record.episodes.offsets);
const actions = unpack(record.episodes.actions);
const good = unpack(record.episodes.good);
const positions = unpack(record.episodes.positions);
const optimality = unpack(record.scores.optimality);
const segment = unpack(record.scores.segment);
const skillOf = unpack(record.scores.skill);
const spread = unpack(record.scores.spread);
const quality = unpack(record.scores.quality);
const integrity = unpack(record.scores.integrity);
const parts = Object.entries(record.scores.parts).map(([name, part]) => ({
  name, values: unpack(part),
}));
const walls = record.walls;
const features = unpack(record.episodes.features);
const featureNames = about.features ?? [];
const rewards = unpack(record.episodes.rewards);
const place = unpack(record.episodes.place);
// The mean score of each step's segment: what is kept or dropped whole, as by `sdil curate`.
const segmentMean = new (optimality.constructor)(optimality.length);

const knowsTruth = good !== null && good.some((g, i) => g >= 0 && !isClean[episodeAt(i)]);
const hasGroups = groups.some((group) => group !== null);

// The episode that a step belongs to.
function episodeAt(step) {
  let low = 0;
  let high = ids.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle] <= step) low = middle; else high = middle - 1;
  }
  return low;
}

const stepsUnknown = Boolean(about.unknown?.step);

// For each demonstration: length, mean score, how well it went, and its segment with the lowest
// mean score.
const demonstrations = ids.map((id, e) => {
  const from = offsets[e];
  const to = offsets[e + 1];
  let sum = 0;
  let well = 0;
  for (let i = from; quality && i < to; i++) well += quality[i];
  let worst = { mean: Infinity, start: 0, stop: 0 };
  for (let i = from; i < to;) {
    const first = i;
    let part = 0;
    while (i < to && segment[i] === segment[first]) part += optimality[i++];
    sum += part;
    const mean = part / (i - first);
    segmentMean.fill(mean, first, i);
    if (mean < worst.mean) worst = { mean, start: first - from, stop: i - from };
  }
  return {
    index: e,
    id,
    group: groups[e],
    set: isClean[e] ? "clean" : "noisy",
    from,
    length: to - from,
    mean: to > from ? sum / (to - from) : NaN,
    well: quality && to > from ? well / (to - from) : NaN,
    worst,
    text: `${id} ${groups[e] ?? ""}`.toLowerCase(),
  };
});

// Runs of equal value in [from, to): what a ribbon shows. Steps count from `from`.
function runs(values, from, to) {
  const found = [];
  for (let i = from; i < to;) {
    const first = i;
    while (i < to && values[i] === values[first]) i++;
    found.push({ value: values[first], start: first - from, stop: i - from });
  }
  return found;
}

// Text for people. The minus sign is as wide as a plus.
const number = (x, digits = 2) =>
  x === null || x === undefined || !Number.isFinite(x)
    ? "–" : x.toFixed(digits).replace(/^-0\.?0*$/, (0).toFixed(digits)).replace("-", "−");
const whole = (x) => x.toLocaleString("en-GB");
const percent = (x, digits = 0) =>
  Number.isFinite(x) ? `${(100 * x).toFixed(digits)}%` : "–";

const count = (n, what) => `${whole(n)} ${what}${n === 1 ? "" : "s"}`;

// The number of a step in the data that it was read from; the step itself where there is none.
const numbering = about.frames ?? null;
function frameOf(d, t) {
  const n = numbering?.[`${d.set}/${d.id}`];
  if (!n) return t;
  return Array.isArray(n) ? n[t] : n.first + n.every * t;
}
const stepWord = numbering ? "frame" : "step";

function stepRange(d, { start, stop }) {
  const first = frameOf(d, start);
  const last = stop < d.length ? frameOf(d, stop) - 1 : frameOf(d, d.length - 1);
  return last > first ? `${first}–${last}` : `${first}`;
}

// An element; children are nodes or text, and text never becomes markup.
function el(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const byId = (id) => document.getElementById(id);

// The choice of what to keep: a threshold, and demonstrations left out by hand.

const choice = { threshold: 0, excluded: new Set() };
const noisyOnes = demonstrations.filter((d) => d.set === "noisy");
const onChoice = [];
const onExcluded = [];

const SHORTEST = 2; // steps in a row, as `sdil curate --min-length` has it

// Scores are compared in their own precision, as numpy does: 0.7 keeps a score stored as 0.7.
const limit = () =>
  (optimality instanceof Float32Array ? Math.fround(choice.threshold) : choice.threshold);

// Runs of kept segments of one demonstration, as [start, stop): what `sdil curate` would keep.
function keptRuns(d) {
  const found = [];
  if (d.set !== "noisy" || choice.excluded.has(d.index)) return found;
  const least = limit();
  for (let t = 0; t < d.length;) {
    const first = t;
    while (t < d.length && segmentMean[d.from + t] >= least) t++;
    if (t - first >= SHORTEST || (t > first && t - first === d.length)) found.push([first, t]);
    if (t === first) t++;
  }
  return found;
}

const isKept = (d, t) => keptRuns(d).some(([start, stop]) => start <= t && t < stop);

// What the choice keeps of the noisy set, and how right that is where the truth is known.
function tally() {
  const sum = { steps: 0, all: 0, episodes: 0, segments: 0, hits: 0, judged: 0, good: 0, known: 0 };
  for (const d of noisyOnes) {
    const kept = keptRuns(d);
    sum.all += d.length;
    sum.segments += kept.length;
    if (kept.length) sum.episodes++;
    for (const [start, stop] of kept) sum.steps += stop - start;
    if (good === null) continue;
    for (let i = d.from; i < d.from + d.length; i++) {
      if (good[i] < 0) continue;
      sum.known++;
      sum.good += good[i];
    }
    for (const [start, stop] of kept) {
      for (let i = d.from + start; i < d.from + stop; i++) {
        if (good[i] < 0) continue;
        sum.judged++;
        sum.hits += good[i];
      }
    }
  }
  return sum;
}

function selection() {
  return {
    format: "sdil-selection",
    version: 1,
    fingerprint: about.fingerprint ?? null,
    threshold: choice.threshold,
    segments: noisyOnes.flatMap((d) => keptRuns(d).map(([start, stop]) => ({
      set: "noisy", episode: d.id, start, stop,
    }))),
  };
}

function showOutcome() {
  const sum = tally();
  byId("threshold-value").textContent = number(choice.threshold);
  byId("mark").style.setProperty("--at", (choice.threshold + 1) / 2);
  byId("threshold").setAttribute("aria-valuetext", number(choice.threshold));
  const out = choice.excluded.size;
  byId("outcome").replaceChildren(...[
    ["Steps", sum.steps, sum.all], ["Episodes", sum.episodes, noisyOnes.length],
  ].flatMap(([name, kept, all]) => [
    el("dt", {}, name),
    el("dd", {}, el("strong", {}, whole(kept)), ` of ${whole(all)} (${percent(kept / all, 1)})`),
  ]), el("dt", {}, "Segments"), el("dd", {}, el("strong", {}, whole(sum.segments)),
    out ? ` with ${whole(out)} left out by hand` : ""));
  byId("outcome-truth").textContent = !sum.known
    ? "How many of these are truly good is not known for this data."
    : `Of the kept steps ${percent(sum.hits / sum.judged, 1)} are truly good (${
      percent(sum.good / sum.known, 1)} of all are), and ${
      percent(sum.hits / sum.good, 1)} of the good ones are kept.`;
  byId("download").disabled = sum.steps === 0;
}

// Counts change at once; charts follow.
function changeChoice() {
  showOutcome();
  for (const tell of onChoice) tell();
  followChoice();
}

function setExcluded(d, out) {
  if (d.set !== "noisy") return;
  if (out) choice.excluded.add(d.index); else choice.excluded.delete(d.index);
  changeChoice();
  for (const tell of onExcluded) tell();
}

function download() {
  const blob = new Blob([`${JSON.stringify(selection(), null, 1)}\n`], { type: "application/json" });
  const link = el("a", { href: URL.createObjectURL(blob), download: "selection.json" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The share of steps that score under each score: a score cut into ten equal bins has ten equal
// bars, but how far two such curves lie apart is how far the sets do.
function shareUnder(scores) {
  const sorted = Float64Array.from(scores).sort();
  const x = [-1];
  const y = [0];
  const every = Math.max(1, Math.floor(sorted.length / 400));
  for (let i = 0; i < sorted.length; i++) {
    if (i % every && i + 1 < sorted.length) continue;
    x.push(sorted[i]);
    y.push((i + 1) / sorted.length);
  }
  x.push(1);
  y.push(1);
  return { x, y };
}

const stepsOf = (set) => demonstrations.filter((d) => d.set === set)
  .flatMap((d) => Array.from(optimality.subarray(d.from, d.from + d.length)));

function histogram() {
  const unseen = about.health?.clean_quantiles ?? [];
  const curve = (name, scores, color) => ({
    type: "scatter", mode: "lines", name, ...shareUnder(scores), line: { color, width: 2.5, shape: "hv" },
    hovertemplate: `${name}: %{y:.0%} score under %{x:.2f}<extra></extra>`,
  });
  const traces = [curve(unseen.length ? "held-out clean steps" : "clean steps",
    unseen.length ? unseen : stepsOf("clean"), scheme().clean)];
  if (noisyOnes.length) traces.push(curve("noisy steps", stepsOf("noisy"), scheme().noisy));
  return {
    traces, margin: { l: 44, r: 12, t: 36, b: 30 },
    xaxis: { range: [-1, 1], automargin: false, dtick: 0.5 },
    yaxis: { range: [0, 1.02], tickformat: ".0%", automargin: false },
  };
}

// Noisy steps whose truth is known, best score first.
const judgedSteps = () => {
  const steps = [];
  for (const d of noisyOnes) {
    for (let i = d.from; i < d.from + d.length; i++) if (good[i] >= 0) steps.push(i);
  }
  return steps.sort((a, b) => optimality[b] - optimality[a]);
};

function precisionRecall() {
  const steps = judgedSteps();
  const total = steps.reduce((sum, i) => sum + good[i], 0);
  const x = [];
  const y = [];
  let hits = 0;
  steps.forEach((i, rank) => {
    hits += good[i];
    const last = rank + 1 === steps.length || optimality[steps[rank + 1]] !== optimality[i];
    if (!last || (rank > 50 && rank % Math.ceil(steps.length / 400) && rank + 1 < steps.length)) {
      return;
    }
    x.push(hits / total);
    y.push(hits / (rank + 1));
  });
  return () => {
    const sum = tally();
    const base = total / steps.length;
    return {
      traces: [
        { type: "scatter", mode: "lines", name: "these scores", x, y,
          line: { color: scheme().accent, width: 2 },
          hovertemplate: "recall %{x:.2f}, precision %{y:.2f}<extra></extra>" },
        { type: "scatter", mode: "lines", name: "chance", x: [0, 1], y: [base, base],
          line: { color: scheme().muted, width: 1, dash: "dot" }, hoverinfo: "skip" },
        { type: "scatter", mode: "markers", name: "your choice", x: [sum.hits / sum.good],
          y: [sum.judged ? sum.hits / sum.judged : null], marker: { size: 11, color: scheme().text },
          hovertemplate: "your choice: recall %{x:.2f}, precision %{y:.2f}<extra></extra>" },
      ],
      xaxis: { range: [0, 1.02], title: "recall: share of good steps that are kept" },
      yaxis: { range: [0, 1.04], title: "precision: share of kept that is good" },
    };
  };
}

function calibration() {
  const used = record.calibration;
  const most = Math.max(...used.map((bin) => bin.count));
  return () => ({
    traces: [
      { type: "scatter", mode: "lines", name: "perfect", x: [0, 1], y: [0, 1],
        line: { color: scheme().muted, width: 1, dash: "dot" }, hoverinfo: "skip" },
      { type: "scatter", mode: "lines+markers", name: "these scores",
        x: used.map((bin) => bin.said), y: used.map((bin) => bin.good),
        text: used.map((bin) => whole(bin.count)), line: { color: scheme().accent, width: 2 },
        marker: { size: used.map((bin) => 6 + 10 * Math.sqrt(bin.count / most)), opacity: 1 },
        hovertemplate: "said %{x:.2f}, is %{y:.2f}; %{text} steps<extra></extra>" },
    ],
    xaxis: { range: [0, 1.02], title: "what the score says: (score + 1) / 2" },
    yaxis: { range: [0, 1.04], title: "share that is truly good" },
  });
}

function startSelection() {
  const slider = byId("threshold");
  const box = byId("histogram");
  chart(box, "Share of clean and of noisy steps under each score", histogram);
  if (knowsTruth) {
    const compared = chartPanel("Precision and recall", "Against the truth, on noisy steps. The dot "
      + "is the threshold above.", "Precision and recall of the scores", precisionRecall());
    const node = compared.querySelector(".chart");
    follow(node, () => {
      const sum = tally();
      Plotly.restyle(node, { x: [[sum.hits / sum.good]],
        y: [[sum.judged ? sum.hits / sum.judged : null]] }, [2]);
    });
    byId("truth-panels").append(compared, chartPanel("Calibration",
      "Read as probabilities, do the scores mean what they say? On the dotted line they would. Larger "
      + "dots hold more steps.", "Calibration of the scores", calibration()));
  }
  slider.addEventListener("input", () => {
    choice.threshold = Number(slider.value);
    changeChoice();
  });
  byId("download").addEventListener("click", download);
  byId("curate").textContent = `sdil curate ${about.run ?? "RUN"} \\\n`
    + `  --data ${about.data ?? "DATA"} \\\n`
    + "  --selection selection.json \\\n  --out demos/curated";
  slider.value = choice.threshold;
  if (!noisyOnes.length) {
    slider.disabled = true;
    byId("curate").textContent = "There are no noisy demonstrations to choose from.";
  }
  showOutcome();
}

// What each skill is: who uses it, what it does, where, and how stable it is.

const skillOrder = !record.skills ? [] : record.skills.clean
  .map((share, k) => ({ k, gap: share - record.skills.noisy[k] }))
  .sort((a, b) => b.gap - a.gap).map(({ k }) => k);

function preference() {
  const { clean, noisy } = record.skills;
  const names = skillOrder.map((k) => `${k}`);
  const bars = (values, name, color) => ({
    type: "bar", name, x: names, y: skillOrder.map((k) => values[k]), marker: { color },
    text: skillOrder.map((k) => number(record.skills.optimality[k])), textposition: "none",
    hovertemplate: `skill %{x}, ${name}: %{y:.1%}; its score: %{text}<extra></extra>`,
  });
  return {
    traces: [bars(clean, "clean", scheme().clean), bars(noisy, "noisy", scheme().noisy)],
    barmode: "group", bargap: 0.3,
    xaxis: { type: "category", title: "skill", showgrid: false },
    yaxis: { tickformat: ".0%", title: "share of steps" },
  };
}

// Actions that some demonstration takes: a task may have others that are never of use.
const usedActions = actionNames.map((_, a) => a).filter((a) => actions.includes(a));

// Of many actions the commonest have a colour of their own, and the others share the last.
const actionKinds = (() => {
  const kind = (a) => ({ name: actionNames[a], of: [a] });
  if (usedActions.length <= PALETTE.length) return usedActions.map(kind);
  const times = new Array(actionNames.length).fill(0);
  for (const a of actions) times[a]++;
  const ranked = [...usedActions].sort((a, b) => times[b] - times[a]);
  const own = PALETTE.length - 1;
  return [...ranked.slice(0, own).sort((a, b) => a - b).map(kind),
    { name: "others", of: ranked.slice(own) }];
})();

function actionShares() {
  const rows = [...skillOrder].reverse();
  const z = rows.map((k) => usedActions.map((a) => record.skills.actions[k][a]));
  return {
    traces: [{
      type: "heatmap", z, x: usedActions.map((a) => asText(actionNames[a])), y: rows.map((k) => `${k}`),
      zmin: 0, zmax: 1, showscale: false, xgap: 2, ygap: 2,
      colorscale: [[0, mix(scheme().surface, scheme().accent, 0.04)], [1, scheme().accent]],
      text: z.map((row) => row.map((p) =>
        (p >= 0.005 && usedActions.length <= 10 ? `${Math.round(100 * p)}%` : ""))),
      texttemplate: "%{text}", hovertemplate: "skill %{y}, %{x}: %{z:.1%}<extra></extra>",
    }],
    showlegend: false, margin: { l: 44, r: 8, t: 8, b: 32 },
    xaxis: { type: "category", showgrid: false, showline: false },
    yaxis: { type: "category", title: "skill", showgrid: false, showline: false },
  };
}

function embeddingChart({ points, steps, prototypes }) {
  const xy = unpack(points);
  const at = unpack(steps);
  return () => {
    const traces = actionKinds.map(({ name, of }, place) => {
      const x = [];
      const y = [];
      at.forEach((step, i) => {
        if (!of.includes(actions[step])) return;
        x.push(xy[2 * i]);
        y.push(xy[2 * i + 1]);
      });
      return {
        type: "scatter", mode: "markers", name: asText(name), x, y, hoverinfo: "name",
        marker: { size: 4, color: paletteColour(place), opacity: 0.7 },
      };
    }).filter((trace) => trace.x.length);
    traces.push({
      type: "scatter", mode: "markers+text", name: "skill prototypes",
      x: prototypes.map((p) => p[0]), y: prototypes.map((p) => p[1]),
      text: prototypes.map((_, k) => `${k}`), textposition: "middle center",
      textfont: { size: 11, color: scheme().surface },
      marker: { symbol: "circle", size: 19, color: scheme().text,
        line: { width: 1.5, color: scheme().surface } },
      hovertemplate: "prototype of skill %{text}<extra></extra>",
    });
    const bare = { showticklabels: false, showgrid: false, zeroline: false, showline: false };
    return { traces, margin: { l: 8, r: 8, t: 36, b: 8 }, constantKeys: true, xaxis: bare, yaxis: { ...bare, scaleanchor: "x" } };
  };
}

const stabilityChart = (agreement) => () => {
  const names = record.stability.runs.map((name) => name.split("/").at(-1));
  return {
    traces: [{
      type: "heatmap", z: agreement, x: names.map(asText), y: names.map(asText), zmin: 0, zmax: 1,
      showscale: false, xgap: 2, ygap: 2,
      colorscale: [[0, mix(scheme().surface, scheme().accent, 0.04)], [1, scheme().accent]],
      text: agreement.map((row) => row.map((v) => number(v))), texttemplate: "%{text}",
      hovertemplate: "%{y} and %{x}: %{z:.2f}<extra></extra>",
    }],
    showlegend: false, margin: { l: 8, r: 8, t: 8, b: 32 },
    xaxis: { type: "category", showgrid: false, showline: false, automargin: true },
    yaxis: { type: "category", autorange: "reversed", showgrid: false, showline: false,
      automargin: true },
  };
};

// The mean over pairs of different runs.
function betweenRuns(matrix) {
  const others = matrix.flatMap((row, i) => row.filter((_, j) => j !== i)).filter(Number.isFinite);
  return others.reduce((a, b) => a + b, 0) / others.length;
}

function stabilityPanels() {
  const { agreement, scores } = record.stability;
  const skills = betweenRuns(agreement);
  const panels = [chartPanel("Do other seeds find the same skills?", `Adjusted Rand index of which `
    + `steps share a skill; on average ${number(skills)} (1 is the same, 0 is chance). ${
      skills >= 0.7 ? "Skills mean much the same from seed to seed."
        : skills >= 0.4 ? "Only part of what skills mean survives a change of seed."
          : "Do not read meaning into single skills: another seed finds others."}`,
  "Agreement of skills between runs", stabilityChart(agreement))];
  if (!scores) return panels;
  const ranks = betweenRuns(scores);
  panels.push(chartPanel("Do other seeds give the same scores?", "Rank correlation of the step "
    + `scores; on average ${number(ranks)} (1 is the same order, 0 is none). ${
      ranks >= 0.7 ? "The scores hardly depend on the seed."
        : ranks >= 0.4 ? "The scores depend on the seed: train several before you drop data."
          : "The scores are mostly the seed’s doing: do not drop data on them."}`,
  "Rank correlation of scores between runs", stabilityChart(scores)));
  return panels;
}

// A node that is built anew when the theme changes.
function rebuilt(build) {
  let node = build();
  onTheme(() => {
    const next = build();
    node.replaceWith(next);
    node = next;
  });
  return node;
}

const skillKey = () => {
  const used = [...new Set(["clean", "noisy"].flatMap((s) => record.arrows[s].map((a) => a[4])))]
    .filter((k) => k !== null).sort((a, b) => a - b);
  return swatches(used.map((k) => [paletteColour(k), `skill ${k}`]));
};

function demonstrationMaps() {
  const colour = (skill) => (skill === null ? scheme().accent : paletteColour(skill));
  return panel("Where demonstrations go", "The majority move in each cell, of up to 50 "
    + "demonstrations of each set. Colour is the skill; the fainter, the less they agree. Cells "
    + "without a clear majority are left out.",
  rebuilt(() => el("div", {}, el("div", { class: "maps" },
    ...["clean", "noisy"].map((set) => el("figure", {}, arrowMap(`Moves, ${set}`,
      record.arrows[set], colour), el("figcaption", {}, set)))), skillKey())), "wide");
}

function mapPanels() {
  const panels = [];
  if (record.arrows.clean.length + record.arrows.noisy.length) panels.push(demonstrationMaps());
  const byRank = [...record.fixed].sort(
    (a, b) => skillOrder.indexOf(a.skill) - skillOrder.indexOf(b.skill));
  const mapped = walls ? byRank.filter((fixed) => fixed.arrows.length) : [];
  if (mapped.length) {
    panels.push(panel("What each skill does when it is held fixed", "The agent run with one skill "
      + "all along, as it stood after discovery; drawn where that skill is the most probable. Best "
      + "first.",
    rebuilt(() => el("div", { class: "maps small" },
      ...mapped.map((fixed) => el("figure", {},
        arrowMap(`Moves of skill ${fixed.skill}`, fixed.arrows, () => paletteColour(fixed.skill)),
        el("figcaption", {}, `skill ${fixed.skill}`))))), "wide"));
  }
  const clips = byRank.filter((fixed) => fixed.frames.length);
  if (clips.length) {
    panels.push(panel("Each skill held fixed, one episode", null, el("div", { class: "maps small" },
      ...clips.map((fixed) => el("div", {}, clip(`Skill ${fixed.skill}`, fixed.frames),
        el("p", { class: "caption" }, `skill ${fixed.skill}`)))), "wide"));
  }
  return panels;
}

function drawSkills() {
  const panels = [];
  if (record.skills) {
    panels.push(
      chartPanel("Who uses which skill", "How often each skill is selected in clean and in noisy "
        + "demonstrations.", "Share of steps per skill, clean and noisy", preference),
      chartPanel("What each skill does", "The mean action distribution where the skill is the most "
        + "probable.", "Action probabilities of each skill", actionShares),
      ...mapPanels(),
    );
  }
  panels.push(...record.embeddings.map((embedding) => chartPanel(
    `Transitions, ${embedding.label}`, "t-SNE of transition embeddings, coloured by action; numbers "
    + "mark the skills’ prototypes.", `t-SNE, ${embedding.label}`, embeddingChart(embedding), "tall")));
  if (record.stability.agreement?.length > 1) {
    panels.push(...stabilityPanels());
  }
  // after the last wide panel the others stand in pairs; one left over takes the whole row
  const wide = panels.map((node) => node.classList.contains("wide"));
  if ((panels.length - 1 - wide.lastIndexOf(true)) % 2) panels.at(-1).classList.add("wide");
  byId("skills").hidden = !panels.length;
  byId("skill-panels").append(...panels);
}

function studyChart(study) {
  return () => {
    const traces = Object.entries(study.series).flatMap(([name, series], i) => {
      const x = study.at;
      const y = series.mean;
      const low = series.low;
      const high = series.high;
      const color = paletteColour(i);
      const shown = { type: "scatter", x, legendgroup: `${i}` };
      const band = !low || !high ? [] : [
        { ...shown, y: low, mode: "lines", line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
        { ...shown, y: high, mode: "lines", line: { width: 0 }, showlegend: false,
          hoverinfo: "skip", fill: "tonexty", fillcolor: `${color}33` },
      ];
      return [...band, { ...shown, y, name: asText(name), mode: "lines+markers",
        text: study.labels.map(asText), line: { color, width: 2 },
        hovertemplate: "%{text}: %{y:.3g}" }];
    });
    const ticks = { type: study.scale, tickvals: study.at, ticktext: study.labels.map(asText) };
    return { traces, hovermode: "x", xaxis: { title: asText(study.xlabel ?? ""), ...ticks },
      yaxis: { title: asText(study.ylabel ?? "") } };
  };
}

function drawStudies() {
  const entries = Object.entries(record.studies);
  byId("studies").hidden = !entries.length;
  byId("study-panels").append(...entries.map(([name, study]) =>
    chartPanel(study.title ?? name, study.note ?? null, name, studyChart(study))));
}

// What each skill is: who uses it, what it does, where, and how stable it is.

const skillOrder = !record.skills ? [] : record.skills.clean
  .map((share, k) => ({ k, gap: share - record.skills.noisy[k] }))
  .sort((a, b) => b.gap - a.gap).map(({ k }) => k);

function preference() {
  const { clean, noisy } = record.skills;
  const names = skillOrder.map((k) => `${k}`);
  const bars = (values, name, color) => ({
    type: "bar", name, x: names, y: skillOrder.map((k) => values[k]), marker: { color },
    hovertemplate: `skill %{x}, ${name}: %{y:.1%}<extra></extra>`,
  });
  return {
    traces: [bars(clean, "clean", scheme().clean), bars(noisy, "noisy", scheme().noisy)],
    barmode: "group", bargap: 0.3,
    xaxis: { type: "category", title: "skill" },
    yaxis: { tickformat: ".0%", title: "share of steps" },
  };
}

function actionShares() {
  const rows = [...skillOrder].reverse();
  const z = rows.map((k) => record.skills.actions[k]);
  return {
    traces: [{
      type: "heatmap", z, x: actionNames.map(asText), y: rows.map((k) => `${k}`),
      zmin: 0, zmax: 1, showscale: false, xgap: 2, ygap: 2,
      colorscale: [[0, mix(scheme().surface, scheme().accent, 0.04)], [1, scheme().accent]],
      text: z.map((row) => row.map((p) => (p >= 0.005 ? `${Math.round(100 * p)}%` : ""))),
      texttemplate: "%{text}", hovertemplate: "skill %{y}, %{x}: %{z:.1%}<extra></extra>",
    }],
    showlegend: false,
    xaxis: { type: "category", showgrid: false },
    yaxis: { type: "category", title: "skill", showgrid: false },
  };
}

function embeddingChart({ points, steps, prototypes }) {
  const xy = unpack(points);
  const at = unpack(steps);
  return () => {
    const traces = actionNames.map((name, a) => {
      const x = [];
      const y = [];
      at.forEach((step, i) => {
        if (actions[step] !== a) return;
        x.push(xy[2 * i]);
        y.push(xy[2 * i + 1]);
      });
      return {
        type: "scatter", mode: "markers", name: asText(name), x, y, hoverinfo: "name",
        marker: { size: 4, color: paletteColour(a), opacity: 0.7 },
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
    const bare = { showticklabels: false, showgrid: false, zeroline: false };
    return { traces, xaxis: bare, yaxis: { ...bare, scaleanchor: "x" } };
  };
}

function stabilityChart() {
  const { runs: names, agreement } = record.stability;
  return {
    traces: [{
      type: "heatmap", z: agreement, x: names.map(asText), y: names.map(asText), zmin: 0, zmax: 1,
      showscale: false, xgap: 2, ygap: 2,
      colorscale: [[0, mix(scheme().surface, scheme().accent, 0.04)], [1, scheme().accent]],
      text: agreement.map((row) => row.map((v) => number(v))), texttemplate: "%{text}",
      hovertemplate: "%{y} and %{x}: %{z:.2f}<extra></extra>",
    }],
    showlegend: false, xaxis: { type: "category", showgrid: false },
    yaxis: { type: "category", autorange: "reversed", showgrid: false },
  };
}

function agreementNote() {
  const { agreement } = record.stability;
  const others = agreement.flatMap((row, i) => row.filter((_, j) => j !== i))
    .filter(Number.isFinite);
  if (!others.length) return "One run only: whether another seed finds the same skills is not known.";
  const mean = others.reduce((a, b) => a + b, 0) / others.length;
  const said = mean >= 0.7 ? "the skills mean much the same from seed to seed"
    : mean >= 0.4 ? "only part of what the skills mean survives a change of seed"
      : "do not read meaning into single skills: another seed finds other ones";
  return `Agreement between runs, skills matched, averages ${number(mean)} (1 is the same, 0 is `
    + `chance): ${said}.`;
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
  const used = [...new Set(["clean", "noisy"].flatMap((s) => record.moves[s].map((c) => c[4])))]
    .filter((k) => k >= 0).sort((a, b) => a - b);
  return swatches(used.map((k) => [paletteColour(k), `skill ${k}`]));
};

function mapPanels() {
  const panels = [];
  if (walls && record.moves && record.moves.clean.length + record.moves.noisy.length) {
    panels.push(panel("Where demonstrations go", "The majority move in each cell, of up to 50 "
      + "demonstrations of each set. Colour is the skill; the fainter, the less they agree. Cells "
      + "without a clear majority are left out.",
    rebuilt(() => el("div", {}, el("div", { class: "maps" },
      ...["clean", "noisy"].map((set) => el("figure", {}, movesMap(`Moves, ${set}`,
        record.moves[set]), el("figcaption", {}, set)))), skillKey())), "wide"));
  }
  const byRank = [...record.fixed].sort(
    (a, b) => skillOrder.indexOf(a.skill) - skillOrder.indexOf(b.skill));
  const mapped = walls ? byRank.filter((fixed) => fixed.cells.length) : [];
  if (mapped.length) {
    panels.push(panel("What each skill does when it is held fixed", "The agent run with one skill "
      + "all along, as it stood after discovery; drawn where that skill is the most probable. Best "
      + "first.",
    rebuilt(() => el("div", {}, el("div", { class: "maps small" },
      ...mapped.map((fixed) => el("figure", {},
        actionsMap(`Actions of skill ${fixed.skill}`, fixed.cells),
        el("figcaption", {}, `skill ${fixed.skill}`)))),
    compass ? "" : swatches(actionNames.map((name, a) => [paletteColour(a), name])
      .filter((_, a) => mapped.some((f) => f.cells.some((cell) => cell[2] === a)))))), "wide"));
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
  if (record.stability?.agreement?.length) {
    panels.push(chartPanel("Do other seeds find the same skills?", agreementNote(),
      "Agreement of skills between runs", stabilityChart));
  }
  byId("skills").hidden = !panels.length;
  byId("skill-panels").append(...panels);
}

function studyChart(study) {
  return () => {
    const traces = Object.entries(study.series).flatMap(([name, series], i) => {
      const x = series.x ?? study.x;
      const y = series.mean ?? series.y ?? [];
      const low = series.low ?? series.lower;
      const high = series.high ?? series.upper;
      const color = paletteColour(i);
      const shown = { type: "scatter", x, legendgroup: `${i}` };
      const band = !low || !high ? [] : [
        { ...shown, y: low, mode: "lines", line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
        { ...shown, y: high, mode: "lines", line: { width: 0 }, showlegend: false,
          hoverinfo: "skip", fill: "tonexty", fillcolor: `${color}33` },
      ];
      return [...band, { ...shown, y, name: asText(name), mode: "lines+markers",
        line: { color, width: 2 }, hovertemplate: "%{x}: %{y:.3g}" }];
    });
    return { traces, hovermode: "x", xaxis: { title: asText(study.x_label ?? "") },
      yaxis: { title: asText(study.y_label ?? "") } };
  };
}

function drawStudies() {
  const entries = Object.entries(record.studies).filter(([, study]) => study?.series);
  byId("studies").hidden = !entries.length;
  byId("study-panels").append(...entries.map(([name, study]) =>
    chartPanel(study.title ?? name, study.note ?? null, name, studyChart(study))));
}

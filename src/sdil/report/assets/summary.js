// What was trained, on what, how good, how sure.

function fact(name, value, note) {
  return el("div", { class: "fact" }, el("span", { class: "name" }, name),
    el("strong", {}, value), note ? el("span", { class: "note" }, note) : null);
}

function drawFacts() {
  const facts = [];
  const result = about.evaluation;
  if (result && Number.isFinite(result.reward_mean)) {
    const reach = Number.isFinite(result.reward_sem) ? 1.96 * result.reward_sem : null;
    facts.push(fact("Mean reward", number(result.reward_mean, 3), reach === null ? null
      : `95% interval ${number(result.reward_mean - reach, 3)} to ${
        number(result.reward_mean + reach, 3)}`));
  }
  if (result && Number.isFinite(result.success_rate)) {
    const [low, high] = result.success_interval ?? [];
    facts.push(fact("Success", percent(result.success_rate, 1),
      low === undefined ? null : `95% interval ${percent(low, 1)} to ${percent(high, 1)}`));
  }
  const truth = about.truth;
  if (stepsUnknown) {
    facts.push(fact("Good steps", "unknown", "no signal is heard for steps"));
  } else if (truth && Number.isFinite(truth.auroc)) {
    const interval = truth.auroc_interval;
    facts.push(fact("Scores against the truth", `${number(truth.auroc)} AUROC`,
      interval ? `95% interval ${number(interval[0])} to ${number(interval[1])}; 0.5 is chance`
        : "0.5 is chance, 1 is perfect"));
  } else {
    facts.push(fact("Scores against the truth", "not known", "no truth comes with this data"));
  }
  const noisy = demonstrations.filter((d) => d.set === "noisy").length;
  const clean = ids.length - noisy;
  facts.push(fact("Demonstrations", `${whole(clean)} + ${whole(noisy)}`,
    `clean + noisy; ${whole(optimality.length)} steps`));
  byId("facts").append(...facts);
}

function asLine(value) {
  if (value !== null && typeof value === "object") {
    return Array.isArray(value) ? value.map(asLine).join(", ")
      : Object.entries(value).map(([key, item]) => `${key} ${asLine(item)}`).join(", ");
  }
  return typeof value === "number" && !Number.isInteger(value)
    ? String(Number(value.toPrecision(4))) : String(value);
}

function pairs(title, entries) {
  const filled = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!filled.length) return null;
  return el("div", {}, el("h4", {}, title), el("dl", { class: "pairs" },
    ...filled.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, asLine(value))])));
}

// "2026-11-15T14:23:38+00:00" as people write it.
const made = String(about.created ?? "").replace(/T(\d\d:\d\d).*(\+00:00|Z)$/, " $1 UTC");

function drawSummary() {
  byId("eyebrow").textContent = [about.reference, made].filter(Boolean).join(" · ");
  const [first, ...others] = record.verdict;
  byId("lead").textContent = first.text;
  drawFacts();
  byId("verdict").append(...others.map(({ tone, text }) => el("li", { class: tone }, text)));
  const truth = about.truth ?? {};
  byId("details").querySelector("div").append(...[
    pairs("Run", [
      ["folder", about.run], ["learner", about.learner], ["reference", about.reference],
      ["judge", about.judge], ["acts", about.acting], ["seed", about.seed],
      ["command", about.command], ["report made", made],
    ]),
    pairs("Data", [
      ["task", about.task], ["environment", about.environment], ["folder", about.data],
      ["clean", `${whole(about.n_clean ?? 0)} (${whole(about.n_steps_clean ?? 0)} steps)`],
      ["noisy", `${whole(about.n_noisy ?? 0)} (${whole(about.n_steps_noisy ?? 0)} steps)`],
      ["fingerprint", about.fingerprint],
    ]),
    ...[["step", "Listened to, for steps"], ["episode", "Listened to, for episodes"]].map(
      ([output, title]) => pairs(title, (about.signals ?? [])
        .filter((signal) => (signal.output ?? "step") === output)
        .map(({ name, heard, why }) => [name, `${heard ? "heard" : "not heard"}: ${why}`]))),
    pairs("Scores against the truth", [
      ["AUROC", truth.auroc], ["average precision", truth.average_precision],
      ["share of good steps", truth.share_good], ["calibration error", truth.ece],
      ["Brier score", truth.brier], ["Brier skill", truth.brier_skill],
    ]),
    pairs("Hyper-parameters", Object.entries(about.hyperparameters ?? {})),
    pairs("Training, weights kept", Object.entries(about.phases ?? {})),
    pairs("Versions", Object.entries(about.versions ?? {})),
  ].filter(Boolean));
  byId("foot").textContent = `Written by sdil ${about.versions?.sdil ?? ""}. This file holds its `
    + "data and needs no network.";
}

// Did curating help? The table of behaviour cloning, or the command that makes it.

const reach = (estimate, times = 1) => {
  if (!estimate) return "–";
  const value = number(times * estimate.value, 3);
  return estimate.high === null ? value
    : `${value} ± ${number(times * (estimate.high - estimate.value), 3)}`;
};

function drawHelped() {
  const helped = about.helped;
  if (!helped) return;
  byId("helped").hidden = false;
  byId("helped-says").textContent = helped.sentence;
  byId("helped-rule").textContent = helped.rule ?? "";
  if (helped.rows.length) {
    const heads = ["learned on", "NLL", "error, %", "NLL minus all", "minus random"];
    byId("helped-table").append(el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...heads.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...helped.rows.map((row) => el("tr", {},
        el("th", { scope: "row" }, row.label),
        ...[reach(row.nll), reach(row.error, 100), reach(row.minus_all), reach(row.minus_random)]
          .map((text) => el("td", {}, text)))))));
  }
  byId("helped-command").textContent = helped.command ?? "";
  byId("helped-command").hidden = !helped.command;
}

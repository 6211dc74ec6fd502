// Start: draw what is there, leave out what is not.

drawSummary();
drawSkills();
drawStudies();
startSelection();
// The first one shown: the worst, but not one of a step or two, which has nothing to show.
const byMean = [...(noisyOnes.length ? noisyOnes : demonstrations)].sort((a, b) => a.mean - b.mean);
if (byMean.length) {
  startTimeline(byMean.find((d) => d.length >= 8) ?? byMean[0]);
  startList();
}
drawHelped();
startTheme();

const SECTIONS = [["summary", "Summary"], ["skills", "Skills"], ["studies", "Studies"],
  ["scores", "Scores"], ["demonstrations", "Demonstrations"],
  ["helped", "Did it help?"]];
document.querySelector(".bar nav").append(...SECTIONS
  .filter(([id]) => !byId(id).hidden)
  .map(([id, name]) => el("a", { href: `#${id}` }, name)));
// On paper nothing comes into view later: all charts are drawn, as wide as a column of the sheet.
addEventListener("beforeprint", () => {
  for (const [node, build] of waiting) drawChart(node, build);
  waiting.clear();
  for (const node of drawn.keys()) Plotly.Plots.resize(node);
});
document.documentElement.dataset.ready = "yes";

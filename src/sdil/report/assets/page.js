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
document.documentElement.dataset.ready = "yes";

// Start: draw what is there, leave out what is not.

drawSummary();
drawSkills();
drawStudies();
startSelection();
const worstNoisy = [...(noisyOnes.length ? noisyOnes : demonstrations)]
  .sort((a, b) => a.mean - b.mean)[0];
if (worstNoisy) {
  startTimeline(worstNoisy);
  startList();
}
startTheme();

const SECTIONS = [["summary", "Summary"], ["skills", "Skills"], ["studies", "Studies"],
  ["scores", "Scores"], ["demonstrations", "Demonstrations"]];
document.querySelector(".bar nav").append(...SECTIONS
  .filter(([id]) => !byId(id).hidden)
  .map(([id, name]) => el("a", { href: `#${id}` }, name)));
document.documentElement.dataset.ready = "yes";

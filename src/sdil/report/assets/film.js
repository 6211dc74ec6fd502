// What cameras saw, in step with the cursor: a strip holds the pictures of an episode row by row.

const film = { camera: null, playing: null };
const PICTURES_A_SECOND = 8;
const hasFilm = Object.keys(record.strips).length > 0 || (about.pictures ?? []).length > 0;

function stopFilm() {
  clearInterval(film.playing);
  film.playing = null;
}

// How far apart the pictures are, and how large.
function stripNote(d, strip) {
  const apart = strip.every === 1 ? "a picture for each step"
    : `${count(strip.count, "picture")}, every ${whole(strip.every)} steps`;
  return `${apart}, ${strip.width}\u00a0×\u00a0${strip.height}`;
}

function filmView(d) {
  stopFilm();
  const strips = record.strips[`${d.set}/${d.id}`];
  const said = (about.pictures ?? []).map((text) => el("p", { class: "note" }, text));
  if (!strips) {
    const none = el("p", { class: "note" }, "This demonstration has no pictures.");
    return { node: el("div", { class: "film" }, none, ...said), at() {} };
  }
  const cameras = Object.keys(strips);
  if (!cameras.includes(film.camera)) [film.camera] = cameras;
  const canvas = el("canvas", { class: "frame", role: "img" });
  const pen = canvas.getContext("2d");
  const sheet = new Image();
  const note = el("p", { class: "note" });
  let at = timeline.at;
  const draw = () => {
    const strip = strips[film.camera];
    const i = Math.min(Math.floor(at / strip.every), strip.count - 1);
    canvas.setAttribute("aria-label",
      `What ${film.camera || "the camera"} saw at step ${i * strip.every}`);
    canvas.dataset.picture = i;
    if (!sheet.complete || !sheet.naturalWidth) return;
    pen.drawImage(sheet, (i % strip.columns) * strip.width,
      Math.floor(i / strip.columns) * strip.height, strip.width, strip.height,
      0, 0, strip.width, strip.height);
  };
  const load = () => {
    const strip = strips[film.camera];
    canvas.width = strip.width;
    canvas.height = strip.height;
    canvas.classList.toggle("photo", !strip.drawn);
    note.textContent = stripNote(d, strip);
    sheet.src = strip.image;
    draw();
  };
  sheet.addEventListener("load", draw);
  const choice = el("select", { class: "camera", "aria-label": "Camera", onchange() {
    film.camera = choice.value;
    load();
  } }, ...cameras.map((name) => el("option", { value: name, selected: name === film.camera },
    name || "camera")));
  const play = el("button", { type: "button", class: "quiet", onclick() {
    if (film.playing !== null) {
      stopFilm();
    } else {
      if (timeline.at >= d.length - 1) moveCursor(0);
      film.playing = setInterval(() => {
        moveCursor(timeline.at + strips[film.camera].every);
        if (timeline.at >= d.length - 1) stopFilm();
        label();
      }, 1000 / PICTURES_A_SECOND);
    }
    label();
  } });
  const label = () => { play.textContent = film.playing === null ? "Play" : "Pause"; };
  label();
  load();
  return {
    node: el("div", { class: "film" }, canvas,
      el("div", { class: "controls" }, play, cameras.length > 1 ? choice : null), note, ...said),
    at(t) {
      at = t;
      draw();
    },
  };
}

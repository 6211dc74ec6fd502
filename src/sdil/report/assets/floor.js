// Floor plans as SVG: a task's walls, moves and actions per cell, and one demonstration's way.

const svg = (tag, attributes, ...children) => el(`svg:${tag}`, attributes, ...children);

function floor(label, ...children) {
  const rows = walls.length;
  const columns = walls[0].length;
  let path = "";
  walls.forEach((cells, y) => cells.forEach((wall, x) => {
    if (wall) path += `M${x} ${y}h1v1h-1z`;
  }));
  return svg("svg", {
    class: "floor", viewBox: `0 0 ${columns} ${rows}`, role: "img", "aria-label": label,
  }, svg("path", { class: "walls", d: path }), ...children);
}

// An arrow per cell for the majority move; colour is the skill, opacity the consistency.
function arrowMap(label, arrows, colour) {
  return floor(label, ...arrows.map(([x, y, dx, dy, skill, share, count]) => {
    const turn = (Math.atan2(dy, dx) * 180) / Math.PI;
    const told = `column ${x}, row ${y}: ${percent(share)} of ${count} moves`;
    return svg("path", {
      d: "M-.36 -.09H.04V-.3L.4 0L.04 .3V.09H-.36z",
      transform: `translate(${x + 0.5} ${y + 0.5}) rotate(${turn})`,
      fill: colour(skill), opacity: 0.2 + 0.8 * share,
    }, svg("title", {}, skill === null ? told : `${told}, skill ${skill}`));
  }));
}

// The way of one demonstration, each step in the colour of its score; `at(t)` moves the marker.
function wayMap(demonstration) {
  const point = (t) => {
    const i = 2 * (demonstration.from + t);
    return [positions[i] + 0.5, positions[i + 1] + 0.5];
  };
  const lines = [];
  for (let t = 0; t + 1 < demonstration.length; t++) {
    const [x1, y1] = point(t);
    const [x2, y2] = point(t + 1);
    if (x1 === x2 && y1 === y2) continue;
    lines.push(svg("line", {
      x1, y1, x2, y2, stroke: scoreColour(optimality[demonstration.from + t]),
    }));
  }
  const [x, y] = point(0);
  const marker = svg("circle", { class: "here", r: 0.42, cx: x, cy: y });
  const map = floor("The way it took, by score; the dot is the step under the cursor",
    svg("g", { class: "way back" }, ...lines.map((line) => line.cloneNode())),
    svg("g", { class: "way" }, ...lines),
    svg("circle", { class: "start", r: 0.3, cx: x, cy: y }, svg("title", {}, "start")), marker);
  return {
    node: map,
    at(t) {
      const [cx, cy] = point(t);
      marker.setAttribute("cx", cx);
      marker.setAttribute("cy", cy);
    },
  };
}

const swatches = (entries) => el("ul", { class: "swatches" },
  ...entries.map(([colour, text]) => {
    const dot = el("i", { "aria-hidden": "true" });
    dot.style.background = colour;
    return el("li", {}, dot, text);
  }));

// A clip of rendered frames: plays on demand, and can be gone through by hand.
function clip(label, frames) {
  const image = el("img", { src: frames[0], alt: label, class: "frame" });
  const slider = el("input", {
    type: "range", min: 0, max: frames.length - 1, value: 0, "aria-label": `${label}: frame`,
  });
  const show = (t) => {
    image.src = frames[t];
    slider.value = t;
  };
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  };
  const button = el("button", {
    type: "button", class: "quiet", onclick() {
      if (timer) return stop();
      button.textContent = "Pause";
      if (Number(slider.value) === frames.length - 1) show(0);
      timer = setInterval(() => {
        if (Number(slider.value) < frames.length - 1) show(Number(slider.value) + 1);
        else stop();
      }, 180);
      return undefined;
    },
  }, "Play");
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  return el("figure", { class: "clip" }, image,
    el("div", { class: "controls" }, button, slider));
}

"use strict";

// Tells the values of curves below the pointer, enlarges a range that is dragged over, and hides a
// curve whose name is clicked. Without this script the plots are whole.
for (const figure of document.querySelectorAll("figure.plot")) {
  const groups = [...figure.querySelectorAll("g[data-points]")];
  if (!groups.length) continue;
  const [area, along] = [figure.querySelector(".area"), figure.querySelector(".along")];
  const at = figure.querySelector(".at");
  const [x, y, percent, unit] = JSON.parse(figure.dataset.axes);
  const axes = { x, y };
  const size = { x: area.viewBox.baseVal.width, y: area.viewBox.baseVal.height };
  const texts = [...figure.querySelectorAll("text.x, text.y")].map((text) => [text, text.textContent]);
  const counted = at.textContent;
  const curves = groups.map((group) => ({ group, points: JSON.parse(group.dataset.points) }));
  let [view, from] = [null, null];

  const value = (axis, part) => {
    const [low, high, log] = axes[axis];
    return log ? low * (high / low) ** part : low + (high - low) * part;
  };
  const part = (axis, number) => {
    const [low, high, log] = axes[axis];
    return log ? Math.log(number / low) / Math.log(high / low) : (number - low) / (high - low);
  };
  const words = (number) =>
    percent ? `${(100 * number).toFixed(2)}%` : `${Number(number.toPrecision(4)).toLocaleString("en")}${unit}`;
  const pointed = (event) => {
    const box = area.querySelector(".ground").getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  };
  const seen = (share) => (view ? view.x0 + share * (view.x1 - view.x0) : share);

  function tell(event) {
    const wanted = value("x", seen(pointed(event)));
    const said = new Map();
    let nearest = null;
    for (const { group, points } of curves) {
      if (group.hasAttribute("hidden")) continue;
      const point = points.reduce((best, one) => (Math.abs(one[0] - wanted) < Math.abs(best[0] - wanted) ? one : best));
      if (!nearest || Math.abs(point[0] - wanted) < Math.abs(nearest[0] - wanted)) nearest = point;
      const { name, label } = group.dataset;
      said.set(name, [...(said.get(name) ?? []), `${label ? `${label} ` : ""}${words(point[1])}`]);
    }
    if (!nearest) return;
    const more = nearest[2] ? ` (${nearest[2]})` : "";
    const alone = figure.querySelector(".legend") ? "" : `: ${[...said.values()].flat().join(", ")}`;
    at.textContent = `${counted} ${nearest[0].toLocaleString("en")}${more}${alone}`;
    for (const entry of figure.querySelectorAll(".legend li"))
      entry.querySelector("output").textContent = (said.get(entry.dataset.name) ?? []).join(", ");
  }

  function show(range) {
    view = range;
    const { x0, x1, y0, y1 } = view ?? { x0: 0, x1: 1, y0: 0, y1: 1 };
    const [left, width] = [x0 * size.x, (x1 - x0) * size.x];
    area.setAttribute("viewBox", `${left} ${(1 - y1) * size.y} ${width} ${(y1 - y0) * size.y}`);
    along.setAttribute("viewBox", `${left} 0 ${width} ${size.y}`);
    figure.classList.toggle("enlarged", Boolean(view));
    for (const [text, whole] of texts) {
      const across = text.classList.contains("x");
      const place = across
        ? (text.x.baseVal[0].value - area.x.baseVal.value) / size.x
        : 1 - (text.y.baseVal[0].value - 4 - area.y.baseVal.value) / size.y;
      const now = across ? value("x", x0 + place * (x1 - x0)) : value("y", y0 + place * (y1 - y0));
      text.textContent = !view ? whole : across ? Math.round(now).toLocaleString("en") : words(now);
    }
  }

  function enlarge(x0, x1) {
    const inside = curves
      .filter(({ group }) => !group.hasAttribute("hidden"))
      .flatMap(({ points }) => points)
      .filter(([x]) => part("x", x) >= x0 && part("x", x) <= x1)
      .map(([, y]) => part("y", y))
      .filter(Number.isFinite);
    if (!inside.length || x1 - x0 < 0.01) return;
    const [low, high] = [Math.min(...inside), Math.max(...inside)];
    const free = 0.05 * (high - low || 0.2);
    show({ x0, x1, y0: low - free, y1: high + free });
  }

  area.addEventListener("pointermove", tell);
  area.addEventListener("pointerdown", (event) => {
    // A finger that moves over a plot scrolls the page.
    if (event.pointerType !== "mouse") return;
    from = seen(pointed(event));
    event.preventDefault();
  });
  addEventListener("pointerup", (event) => {
    if (from === null) return;
    const to = seen(pointed(event));
    if (Math.abs(to - from) > 0.02 * (view ? view.x1 - view.x0 : 1)) enlarge(Math.min(from, to), Math.max(from, to));
    from = null;
  });
  area.addEventListener("dblclick", () => show(null));
  for (const entry of figure.querySelectorAll(".legend li"))
    entry.addEventListener("click", () => {
      const off = entry.classList.toggle("off");
      for (const { group } of curves)
        if (group.dataset.name === entry.dataset.name) group.toggleAttribute("hidden", off);
    });
}

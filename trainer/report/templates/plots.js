"use strict";

// Draws the figures of the page; their colours name CSS variables and so follow the colour scheme.
(() => {
  const figures = [...document.querySelectorAll("script[data-plot]")].map((data) => ({
    place: document.getElementById(data.dataset.plot),
    figure: JSON.parse(data.textContent),
  }));
  const touch = matchMedia("(pointer: coarse)").matches;

  function coloured(value, style) {
    if (typeof value === "string") {
      const name = /^var\((--[a-z0-9-]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((entry) => coloured(entry, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, entry]) => [key, coloured(entry, style)]),
    );
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    for (const { place, figure } of figures) {
      const { data, layout } = coloured(figure, style);
      // A finger that moves over a plot scrolls the page.
      layout.dragmode = touch ? false : "zoom";
      Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
    }
  }

  draw();
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", draw);
  }
})();

"use strict";

// Shows only the classes whose name contains what is typed.
(() => {
  const box = document.getElementById("filter");
  const told = document.getElementById("filtered");
  const classes = [...document.querySelectorAll(".class")].map((card) => ({
    card,
    name: card.querySelector("h3").textContent.toLowerCase(),
  }));

  function filter() {
    const wanted = box.value.trim().toLowerCase();
    for (const { card, name } of classes) card.hidden = !name.includes(wanted);
    const left = classes.filter(({ card }) => !card.hidden).length;
    told.textContent = wanted ? `${left} of ${classes.length} classes` : "";
  }

  // Without this script the box would do nothing.
  box.parentElement.hidden = false;
  box.addEventListener("input", filter);
  filter();
})();

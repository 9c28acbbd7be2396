"use strict";

// A button with data-copy puts the text of the element of that id on the clipboard.
function copyOnClick(button) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const label = button.textContent;
    button.textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

// A section with data-live shows the engine's events: each field, and the last minute's tokens/s.
function follow(section) {
  const rates = [];
  const line = section.querySelector("polyline");
  new EventSource(section.dataset.live).addEventListener("message", (event) => {
    const now = JSON.parse(event.data);
    for (const element of section.querySelectorAll("[data-field]")) {
      const value = now[element.dataset.field];
      element.textContent = "percent" in element.dataset ? `${(100 * value).toFixed(1)} %` : value;
    }
    rates.push(now.tokens_per_second);
    if (rates.length > 60) rates.shift();
    const highest = Math.max(1, ...rates);
    const start = 60 - rates.length;
    line.setAttribute("points", rates.map((rate, i) => `${start + i},${19 - 18 * rate / highest}`).join(" "));
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-copy]").forEach(copyOnClick);
  document.querySelectorAll("[data-live]").forEach(follow);
});

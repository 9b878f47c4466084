// Choosing a range of time in a chart by mouse or touch; it is put into the page's address.
// The form below a chart does the same by keyboard and without this script.
(() => {
  "use strict";

  let brush = null;  // the chart's data and place, and the steps between which it is held
  const shade = document.createElement("div");  // in no part of the page that is updated live
  shade.className = "brush";
  shade.hidden = true;
  document.body.append(shade);

  function stepAt(x) {
    const step = Math.floor((x - brush.box.left) / brush.box.width * brush.steps);
    return Math.max(0, Math.min(brush.steps - 1, step));
  }

  function hold(x) {
    brush.to = stepAt(x);
    const [first, last] = [brush.from, brush.to].sort((a, b) => a - b), width = brush.box.width / brush.steps;
    shade.style.cssText = `left: ${brush.box.left + first * width}px; top: ${brush.box.top}px; ` +
      `width: ${(last - first + 1) * width}px; height: ${brush.box.height}px`;
    shade.hidden = false;
    return [first, last];
  }

  function drop() { brush = null; shade.hidden = true; }

  // As `datetime-local` fields write it; pages are in UTC.
  function written(epoch) { return new Date(epoch * 1000).toISOString().slice(0, 19); }

  document.addEventListener("pointerdown", (event) => {
    const chart = event.target.closest("svg[role=img]"), data = chart?.closest("[data-brush]")?.dataset;
    if (!data || event.button || !event.isPrimary) return;
    event.preventDefault();  // no text is selected
    const { brush: to, names, start, step, steps } = data;
    brush = { href: to, names: names.split(" "), start: +start, step: +step, steps: +steps, box: chart.getBoundingClientRect() };
    brush.from = stepAt(event.clientX);
    hold(event.clientX);
  });
  document.addEventListener("pointermove", (event) => { if (brush && event.isPrimary) hold(event.clientX); });
  document.addEventListener("pointerup", (event) => {
    if (!brush || !event.isPrimary) return;
    const [first, last] = hold(event.clientX), url = new URL(brush.href, location.href);
    url.searchParams.set(brush.names[0], written(brush.start + first * brush.step));
    url.searchParams.set(brush.names[1], written(brush.start + (last + 1) * brush.step));
    drop();
    location.assign(url);
  });
  document.addEventListener("pointercancel", drop);  // the page is scrolled
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") drop(); });
})();

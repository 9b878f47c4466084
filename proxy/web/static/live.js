// Live updates: on a change event the page is fetched again and its changed parts are replaced.
// All pages are told at the same moment; with what they were told they share one answer.
// Pages work without this script.
(() => {
  "use strict";

  const COPIES = "[data-copy], [data-copy-from]";
  for (const button of document.querySelectorAll(COPIES)) button.hidden = !navigator.clipboard;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(COPIES);
    if (!button) return;
    const { copy, copyFrom } = button.dataset, label = button.textContent;
    await navigator.clipboard.writeText(copyFrom ? await (await fetch(copyFrom)).text() : copy);
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = label; }, 1500);
  });

  const indicator = document.getElementById("live");
  if (!indicator || !window.EventSource) return;
  const word = document.getElementById("live-word");
  const PAUSE_MS = 1000;
  let wanted = false, busy = false, spent = 0, announced = 0, told = "";

  function announce(text) { document.getElementById("news").textContent = text; }

  function replace(part, fresh) {
    const open = [...part.querySelectorAll("details[open][id]")].map((details) => details.id);
    for (const id of open) fresh.querySelector("#" + CSS.escape(id))?.setAttribute("open", "");
    for (const button of fresh.querySelectorAll(COPIES)) button.hidden = !navigator.clipboard;
    if (part.innerHTML === fresh.innerHTML) return false;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
    const typed = [...part.querySelectorAll("input")].map((field) => field.value !== field.defaultValue && field.value);
    const place = focused && [...part.querySelectorAll(focused.tagName)].indexOf(focused);
    part.innerHTML = fresh.innerHTML;
    [...part.querySelectorAll(".scroll")].forEach((box, n) => { box.scrollLeft = scrolled[n] ?? 0; });
    [...part.querySelectorAll("input")].forEach((field, n) => { if (typed[n]) field.value = typed[n]; });
    if (focused) part.querySelectorAll(focused.tagName)[place]?.focus({ preventScroll: true });
    return true;
  }

  async function update() {
    const began = performance.now();
    const response = await fetch(location.href, { headers: { accept: "text/html", "x-truezero-change": told }, cache: "no-store" });
    if (!response.ok || response.redirected) throw new Error("page moved");
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    let changed = false;
    for (const part of document.querySelectorAll("[data-part]")) {
      const update = fresh.getElementById(part.id);
      if (update) changed = replace(part, update) || changed;
    }
    if (changed && Date.now() - announced > 15000) { announced = Date.now(); announce("Page updated"); }
    spent = performance.now() - began;
  }

  // Spends at most a fifth of the time fetching, however slow the response, and none while hidden.
  async function refresh() {
    wanted = true;
    if (busy || document.hidden) return;
    busy = true;
    while (wanted && !document.hidden) {
      wanted = false;
      try { await update(); } catch { word.textContent = "offline"; }
      await new Promise((done) => setTimeout(done, Math.max(PAUSE_MS, 4 * spent)));
    }
    busy = false;
  }

  const source = new EventSource(indicator.dataset.live);
  source.addEventListener("open", () => {
    if (word.textContent === "reconnecting") refresh();  // changes missed meanwhile
    indicator.hidden = false; indicator.classList.add("on"); word.textContent = "live";
  });
  source.addEventListener("changed", (event) => { told = event.data; refresh(); });
  source.addEventListener("error", () => { told = ""; indicator.classList.remove("on"); word.textContent = "reconnecting"; });
  document.addEventListener("visibilitychange", () => { if (wanted) refresh(); });
})();

// Keeps a page fresh: the service says that something changed, the page is read again, and what
// differs is put in its place. Everything on a page can be read without this.
(() => {
  "use strict";

  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
    say("Copied");
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  const shown = document.getElementById("live");
  if (!shown || !window.EventSource) return;
  const word = document.getElementById("live-word");
  const PAUSE_MS = 1000;
  let wanted = false, busy = false, spent = 0, told = 0;

  function say(news) { document.getElementById("news").textContent = news; }

  function put(part, fresh) {
    const open = [...part.querySelectorAll("details[open][id]")].map((found) => found.id);
    for (const id of open) fresh.querySelector("#" + CSS.escape(id))?.setAttribute("open", "");
    for (const button of fresh.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
    if (part.innerHTML === fresh.innerHTML) return false;
    const held = part.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...part.querySelectorAll(".scroll")].map((found) => found.scrollLeft);
    const place = held && [...part.querySelectorAll(held.tagName)].indexOf(held);
    part.innerHTML = fresh.innerHTML;
    [...part.querySelectorAll(".scroll")].forEach((found, n) => { found.scrollLeft = scrolled[n] ?? 0; });
    if (held) part.querySelectorAll(held.tagName)[place]?.focus({ preventScroll: true });
    return true;
  }

  async function read() {
    const began = performance.now();
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (!answer.ok || answer.redirected) throw new Error("not this page any more");
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    let changed = false;
    for (const part of document.querySelectorAll("[data-part]")) {
      const found = fresh.getElementById(part.id);
      if (found) changed = put(part, found) || changed;
    }
    if (changed && Date.now() - told > 15000) { told = Date.now(); say("The page was updated"); }
    spent = performance.now() - began;
  }

  // Never more than a fifth of the time, however slow the answer is, and not while nobody looks.
  async function refresh() {
    wanted = true;
    if (busy || document.hidden) return;
    busy = true;
    while (wanted && !document.hidden) {
      wanted = false;
      try { await read(); } catch { word.textContent = "not live"; }
      await new Promise((done) => setTimeout(done, Math.max(PAUSE_MS, 4 * spent)));
    }
    busy = false;
  }

  const source = new EventSource(shown.dataset.live);
  source.addEventListener("open", () => {
    if (word.textContent === "waiting") refresh();  // what was missed meanwhile
    shown.hidden = false; shown.classList.add("on"); word.textContent = "live";
  });
  source.addEventListener("changed", refresh);
  source.addEventListener("error", () => { shown.classList.remove("on"); word.textContent = "waiting"; });
  document.addEventListener("visibilitychange", () => { if (wanted) refresh(); });
})();

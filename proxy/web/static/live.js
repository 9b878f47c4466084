// Live updates: on a change event the page is fetched again and merged into the one that is open.
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
  const word = document.getElementById("live-word"), more = document.getElementById("more");
  const PAUSE_MS = 1000;
  let wanted = false, busy = false, spent = 0, announced = 0, told = "";
  let latest = null;  // the page as it is by now, where some of it waits

  function announce(text) { document.getElementById("news").textContent = text; }

  // What a page shows is changed in place, so that selection, ticks, focus, scroll and what is
  // open stay. Rows are known by `data-key`: in `[data-rows]` new ones wait until they are asked
  // for, and none is moved or removed; `data-rows=end` takes those that follow the last one.
  function keyOf(node) { return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id : ""; }

  function alike(one, other) { return one.nodeName === other.nodeName && keyOf(one) === keyOf(other); }

  class Merge {
    constructor(fresh, all) { this.fresh = fresh; this.all = all; this.rows = 0; this.waits = false; this.changed = false; this.added = []; }

    node(old, fresh) {
      if (old.isEqualNode(fresh)) return;
      if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; this.changed = true; return; }
      if (old.matches("[data-own]")) return;  // a script writes it
      const own = old.matches(COPIES) ? ["hidden"] : old.matches("details") ? ["open"] : [];
      for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !own.includes(name)) { old.removeAttribute(name); this.changed = true; }
      for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !own.includes(name)) { old.setAttribute(name, value); this.changed = true; }
      if (!this.all && old.matches("[data-rows]")) this.kept(old, fresh);
      else this.children(old, fresh);
    }

    children(old, fresh) {
      const known = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
      let at = old.firstChild;
      for (const next of [...fresh.childNodes]) {
        const keyed = known.get(keyOf(next));
        if (keyed && alike(keyed, next)) {
          if (keyed === at) at = at.nextSibling; else old.insertBefore(keyed, at);
          this.node(keyed, next);
        } else if (at && alike(at, next)) {
          const same = at;
          at = at.nextSibling;
          this.node(same, next);
        } else if (this.all || !this.hold(next)) {
          this.insert(old, next, at);
        }
      }
      while (at) {
        const gone = at;
        at = at.nextSibling;
        if (!this.all && gone.nodeType === Node.ELEMENT_NODE && gone.querySelector("[data-key]")) this.waits = true;
        else { gone.remove(); this.changed = true; }
      }
    }

    // The rows that are shown, in their order: each as it is by now, on whichever list that is.
    kept(old, fresh) {
      const shown = [...old.children].filter(keyOf), last = shown.at(-1);
      for (const row of shown) {
        const now = this.fresh.querySelector(`[data-key="${CSS.escape(keyOf(row))}"]`);
        if (!now || !fresh.contains(now)) this.waits = true;
        if (!now) continue;
        if (row.matches(".fold")) this.waits ||= !row.isEqualNode(now);
        else this.node(row, now);
      }
      let follows = !shown.length && old.dataset.rows === "end";
      for (const row of [...fresh.children].filter(keyOf)) {
        if (last && keyOf(row) === keyOf(last)) follows = old.dataset.rows === "end";
        else if (this.shows(row)) continue;
        else if (row.matches(".fold")) this.waits = true;
        else if (follows) this.insert(old, row, null);
        else this.hold(row);
      }
    }

    shows(row) { return document.querySelector(`[data-key="${CSS.escape(keyOf(row))}"]`) !== null; }

    hold(node) {
      if (node.nodeType !== Node.ELEMENT_NODE) return false;
      const rows = [...(node.dataset.key ? [node] : []), ...node.querySelectorAll("[data-key]")];
      this.rows += rows.filter((row) => !this.shows(row)).length;
      return rows.length > 0;
    }

    insert(into, node, before) {
      for (const button of node.querySelectorAll?.(COPIES) ?? []) button.hidden = !navigator.clipboard;
      if (node.dataset?.key) this.added.push(node);
      into.insertBefore(node, before);
      this.changed = true;
    }
  }

  function merge(fresh, all) {
    const merged = new Merge(fresh, all || !document.querySelector("main [data-key]"));
    for (const part of document.querySelectorAll("[data-part]")) {
      const update = fresh.getElementById(part.id);
      if (update) merged.node(part, update);
    }
    latest = merged.rows || merged.waits ? fresh : null;
    more.hidden = !latest;
    const text = merged.rows ? `${merged.rows.toLocaleString("en")} new · show` : "Changed · show";
    if (latest && more.textContent !== text) { more.textContent = text; announce(text); }
    document.dispatchEvent(new Event("merged"));
    return merged;
  }

  more.addEventListener("click", async () => {
    // What waits may be older than what is shown by now.
    try {
      const { added } = merge(await fetched(), true);
      added[0]?.scrollIntoView({ block: "center" });
      for (const row of added) row.animate([{ backgroundColor: "var(--accent-fill)" }, {}], 6000);
    } catch { word.textContent = "offline"; }
    announce("Page updated");
  });

  // While text is selected nothing changes.
  function selecting() {
    const selection = document.getSelection();
    return !selection.isCollapsed && document.getElementById("main").contains(selection.anchorNode);
  }

  async function fetched() {
    const response = await fetch(location.href, { headers: { accept: "text/html", "x-truezero-change": told }, cache: "no-store" });
    if (!response.ok || response.redirected) throw new Error("page moved");
    return new DOMParser().parseFromString(await response.text(), "text/html");
  }

  async function update() {
    const began = performance.now();
    const fresh = await fetched();
    if (selecting()) { wanted = true; return; }
    const { changed } = merge(fresh, false);
    if (changed && Date.now() - announced > 15000) { announced = Date.now(); announce("Page updated"); }
    spent = performance.now() - began;
  }

  // Spends at most a fifth of the time fetching, however slow the response, and none while hidden.
  async function refresh() {
    wanted = true;
    if (busy || document.hidden || selecting()) return;
    busy = true;
    while (wanted && !document.hidden && !selecting()) {
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
  for (const event of ["visibilitychange", "selectionchange"]) document.addEventListener(event, () => { if (wanted) refresh(); });
})();

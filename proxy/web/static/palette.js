// Keys: j and k go from row to row, "?" lists keys. The palette: "/" and Ctrl-K open it, and what is typed is looked up on the page /ui/find.
// Without this script its link leads to that page.
(() => {
  "use strict";

  const opener = document.getElementById("find"), palette = document.getElementById("palette");
  if (!opener || !palette.showModal) return;
  const field = palette.querySelector("input"), list = palette.querySelector("ul");
  const PAUSE_MS = 150;
  let timer = 0, asked = 0;

  async function look() {
    const mine = ++asked;
    const response = await fetch("/ui/find?" + new URLSearchParams({ q: field.value }));
    if (!response.ok || response.redirected || mine !== asked) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine === asked) list.replaceChildren(...page.getElementById("found").children);
  }

  function open() {
    if (palette.open) return;
    palette.showModal();
    field.select();
    look();
  }

  function move(step) {
    const stops = [field, ...list.querySelectorAll("a")];
    stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
  }

  // From row to row of the lists, by the link that names each.
  function step(by) {
    const rows = [...document.querySelectorAll("main [data-key] > th a:not(.pill), main #found a")];
    const at = rows.findIndex((link) => link.closest("tr, li").contains(document.activeElement));
    rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  }

  opener.addEventListener("click", (event) => { event.preventDefault(); open(); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    const held = event.ctrlKey || event.metaKey;
    if (held && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") { event.preventDefault(); open(); return; }
    if (typing || held || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") { event.preventDefault(); open(); }
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  });
  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, PAUSE_MS); });
  palette.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    }
  });
  palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
  palette.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    await look();
    list.querySelector("a")?.click();
  });
})();

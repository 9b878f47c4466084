// Forms and menus: Back and Forward show what the address says, and batches that were ticked stay
// ticked on every page of the list until they are cleared. Pages work without this script.
(() => {
  "use strict";

  const KEPT = "truezero.ticked";
  const form = document.querySelector("form.tick"), said = document.getElementById("ticked");

  function ticked() { return JSON.parse(sessionStorage.getItem(KEPT) || "[]"); }

  function show() {
    if (!form) return;
    const names = ticked();
    for (const box of form.querySelectorAll("input[name=run]")) box.checked = names.includes(box.value);
    said.textContent = names.join(" · ");
    said.parentElement.classList.toggle("some", names.length > 0);
    document.getElementById("untick").hidden = names.length === 0;
  }

  function keep(names) {
    sessionStorage.setItem(KEPT, JSON.stringify(names));
    show();
  }

  // A page that the browser kept alive holds what was changed before it was left.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) for (const each of document.querySelectorAll("form[method=get]")) each.reset();
    show();
  });
  document.addEventListener("merged", show);
  form?.addEventListener("change", ({ target }) => {
    if (target.name === "run") keep([...ticked().filter((name) => name !== target.value), ...(target.checked ? [target.value] : [])]);
  });
  form?.addEventListener("submit", () => {
    const here = [...form.querySelectorAll("input[name=run]")].map((box) => box.value);
    form.querySelectorAll("input[type=hidden]").forEach((field) => field.remove());
    for (const name of ticked().filter((each) => !here.includes(each))) {
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "run", value: name });
      form.append(field);
    }
  });
  // One menu is open at a time; Escape and a click elsewhere close it.
  function shut(but) { for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== but) menu.open = false; }
  document.addEventListener("click", ({ target }) => shut(target.closest("details.menu")));
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    event.stopImmediatePropagation();
    menu.querySelector("summary").focus();
    shut();
  }, true);
  document.getElementById("untick")?.addEventListener("click", () => keep([]));
})();

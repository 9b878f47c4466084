// The proof beside the list: a row's rollout opens in a panel at the right, which follows j and k and
// the focus, and stands in the address. Without this script, and on a narrow window, the row's link
// leads to the rollout's page.
(() => {
  "use strict";

  const main = document.getElementById("main"), wide = window.matchMedia("(min-width: 1000px)");
  const LINK = "[data-rows] a[href^='/ui/rollouts/']", MARK = "#open=";
  const panel = Object.assign(document.createElement("aside"), { className: "panel", id: "panel", tabIndex: -1, hidden: true });
  let shown = null, row = "", asked = 0;  // the link whose rollout is open, and what its row said
  main.after(panel);

  function nameOf(link) { return new URL(link.href).pathname.slice("/ui/rollouts/".length); }

  function linkTo(name) { return [...main.querySelectorAll(LINK)].find((link) => nameOf(link) === name); }

  function told(link) {
    const copy = link.closest("[data-key]").cloneNode(true);
    for (const time of copy.querySelectorAll("time")) time.remove();
    return copy.textContent;
  }

  function mark() {
    for (const each of main.querySelectorAll("[data-rows] [aria-current]")) each.removeAttribute("aria-current");
    if (shown?.isConnected) shown.closest("[data-key]").setAttribute("aria-current", "true");
  }

  // What a page says of its own addresses holds here too; ids are the panel's own.
  function adopted(part, page) {
    part.removeAttribute("data-part");
    part.querySelectorAll(".crumbs, .beside").forEach((each) => each.remove());
    for (const link of part.querySelectorAll("a[href^='?']")) link.href = new URL(link.getAttribute("href"), page).href;
    for (const each of [part, ...part.querySelectorAll("[id]")]) each.id = "panel-" + each.id;
    for (const each of part.querySelectorAll("[aria-labelledby]")) each.setAttribute("aria-labelledby", "panel-" + each.getAttribute("aria-labelledby"));
    for (const button of part.querySelectorAll("[data-copy], [data-copy-from]")) button.hidden = !navigator.clipboard;
    const head = part.querySelector("h1"), title = document.createElement("h2");
    const whole = Object.assign(document.createElement("a"), { href: shown.href, textContent: head.textContent });
    title.className = "id";
    title.append(whole);
    head.replaceWith(title);
    return part;
  }

  async function fill(link) {
    const mine = ++asked, address = new URL(link.href);
    address.searchParams.set("show", "proof");
    const response = await fetch(address, { headers: { accept: "text/html" } });
    if (mine !== asked) return;
    if (!response.ok || response.redirected) { location.assign(link.href); return; }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== asked) return;
    const opened = [...panel.querySelectorAll("details[open]")].map((each) => each.id), at = panel.scrollTop;
    const same = panel.dataset.rollout === nameOf(link);
    const close = Object.assign(document.createElement("button"), { type: "button", className: "small close", textContent: "Close" });
    close.addEventListener("click", () => leave());
    panel.replaceChildren(close, adopted(page.getElementById("part-rollout"), address));
    panel.dataset.rollout = nameOf(link);
    panel.setAttribute("aria-label", "Rollout " + decodeURIComponent(nameOf(link)));
    panel.hidden = false;
    document.body.classList.add("panelled");
    if (same) {
      for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
      panel.scrollTop = at;
    } else {
      panel.scrollTop = 0;
      document.getElementById("news").textContent = panel.querySelector(".sentence").textContent;
    }
  }

  function show(link) {
    shown = link;
    row = told(link);
    mark();
    return fill(link);
  }

  function open(link) {
    const address = MARK + nameOf(link);
    if (shown) history.replaceState(null, "", address); else history.pushState(null, "", address);
    show(link);
  }

  function close() {
    asked += 1;
    const last = shown;
    shown = null;
    panel.hidden = true;
    panel.replaceChildren();
    delete panel.dataset.rollout;
    document.body.classList.remove("panelled");
    mark();
    if (last?.isConnected) last.focus();
  }

  function leave() {
    history.replaceState(null, "", location.pathname + location.search);
    close();
  }

  // Back, Forward, and an address that somebody was sent.
  function follow() {
    const link = location.hash.startsWith(MARK) && wide.matches && linkTo(location.hash.slice(MARK.length));
    if (link) { if (link !== shown) show(link); } else if (shown) close();
  }

  main.addEventListener("click", (event) => {
    const link = event.target.closest(LINK);
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || !wide.matches) return;
    if (link === shown && !event.detail) return;  // Enter once more: its page
    event.preventDefault();
    if (link !== shown) open(link);
  });
  main.addEventListener("focusin", ({ target }) => {
    if (shown && target.matches(LINK) && target !== shown) open(target);
  });
  panel.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']"), call = link && panel.querySelector("#panel-" + link.hash.slice(1))?.closest("details");
    if (!call) return;
    event.preventDefault();
    call.open = true;
    call.scrollIntoView({ block: "nearest" });
    call.querySelector("summary").focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && shown) leave();
    const link = event.key === "o" && wide.matches && document.activeElement.closest("[data-key]")?.querySelector(LINK.replace("[data-rows] ", ""));
    if (link && link !== shown) open(link);
  });
  document.addEventListener("merged", () => {
    mark();
    const reading = panel.contains(document.activeElement) || panel.contains(document.getSelection().anchorNode);
    if (shown?.isConnected && !reading && told(shown) !== row) show(shown);
  });
  window.addEventListener("popstate", follow);
  follow();
})();

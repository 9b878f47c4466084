// Charts: the values under a crosshair, by mouse and by arrow keys, and pictures for a paper.
// Pages work without this script: the table below a chart has its values.
(() => {
  "use strict";

  document.documentElement.classList.add("scripted");

  // --- a crosshair ------------------------------------------------------------------------------

  let held = null;  // the figure, the step of it whose values are read out, and if the pointer is there
  const cross = document.body.appendChild(Object.assign(document.createElement("div"), { className: "cross", hidden: true }));  // in no part of the page that is updated live

  function show(figure, at, pointed = false) {
    if (held && held.figure !== figure) hide();
    const plot = figure.querySelector("svg.plot"), steps = +plot.dataset.steps, step = Math.max(0, Math.min(steps - 1, at));
    held = { figure, step, pointed };
    const box = plot.getBoundingClientRect(), tall = plot.querySelector(".drawn").getAttribute("height");
    cross.style.cssText = `left: ${box.left + scrollX + (step + 0.5) / steps * box.width}px; top: ${box.top + scrollY}px; height: ${tall}px`;
    cross.hidden = false;
    const words = values(figure, step), readout = figure.querySelector(".readout");
    if (readout.textContent !== words) readout.textContent = words;
  }

  function hide() {
    if (!held) return;
    held.figure.querySelector(".readout").textContent = "";
    cross.hidden = true;
    held = null;
  }

  // As the table has them, so that they are the same.
  function values(figure, step) {
    const heads = [...figure.querySelectorAll("thead th")].slice(1), row = figure.querySelectorAll("tbody tr")[step];
    const cells = [...row.cells].slice(1).map((cell, n) => `${heads[n].textContent} ${cell.textContent}`);
    return `${row.cells[0].textContent}: ${cells.join(" · ")}`;
  }

  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("svg.plot");
    if (!plot) { if (held?.pointed) hide(); return; }
    const box = plot.getBoundingClientRect();
    show(plot.closest("figure"), Math.floor((event.clientX - box.left) / box.width * plot.dataset.steps), true);
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches("svg.plot:focus-visible")) show(target.closest("figure"), 0);
  });
  document.addEventListener("focusout", ({ target }) => { if (target.matches("svg.plot")) hide(); });
  document.addEventListener("keydown", (event) => {
    if (!event.target.matches("svg.plot") || event.ctrlKey || event.metaKey || event.altKey) return;
    const figure = event.target.closest("figure"), at = held?.figure === figure ? held.step : -1;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: Infinity }[event.key];
    if (event.key === "Escape") hide();
    if (to === undefined) return;
    event.preventDefault();
    show(figure, to);
  });
  document.addEventListener("merged", () => {
    if (held?.figure.isConnected) show(held.figure, held.step, held.pointed);
    else hide();
  });
  addEventListener("resize", () => { if (held) show(held.figure, held.step, held.pointed); });

  // --- a picture --------------------------------------------------------------------------------
  // Alone, as a paper has it: light, every style and place written out, with a caption.

  const SVG = "http://www.w3.org/2000/svg", FONT = "Helvetica, Arial, sans-serif";
  const WIDE = 760, EDGE = 20, GUTTER = 44, SHARPER = 3;
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray"];
  const INK = "#17171a", SOFT = "#4b4b55";

  function made(name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function written(x, y, words, size, look = {}) {
    return made("text", { x, y, "font-size": size, fill: SOFT, ...look }, words);
  }

  const ruler = document.createElement("canvas").getContext("2d");
  function width(words, size, weight = "") { ruler.font = `${weight} ${size}px ${FONT}`; return ruler.measureText(words).width; }

  // A copy of an element with its styles as attributes, `across` pixels wide.
  function alone(node, across) {
    const copy = made(node.localName, {}), look = getComputedStyle(node);
    for (const { name, value } of node.attributes) {
      if (/^(class|id|role|tabindex|data-.*|aria-.*)$/.test(name)) continue;
      copy.setAttribute(name, value.endsWith("%") ? (parseFloat(value) / 100 * across).toFixed(2) : value);
    }
    if (node.localName !== "svg") for (const name of STYLES) copy.setAttribute(name, look.getPropertyValue(name));
    if (node.localName === "text") { copy.setAttribute("font-size", "11"); copy.textContent = node.textContent; }
    copy.append(...[...node.children].map((child) => alone(child, across)));
    return copy;
  }

  // Lays pieces out in lines of the picture's width.
  function flow(into, y, pieces, high) {
    let x = EDGE;
    for (const { node, wide } of pieces) {
      if (x > EDGE && x + wide > WIDE - EDGE) { x = EDGE; y += high; }
      node.setAttribute("transform", `translate(${x} ${y})`);
      into.append(node);
      x += wide;
    }
    return y + high;
  }

  // The legend's items.
  function entries(items, size) {
    return items.map((item) => {
      const node = made("g", {}), words = item.textContent.trim().replace(/\s+/g, " ");
      const shape = alone(item.querySelector("svg"), 11);
      shape.setAttribute("y", -size + 2);
      node.append(shape, written(16, 0, words, size, { fill: INK }));
      return { node, wide: 16 + width(words, size) + 18 };
    });
  }

  function lines(words, size, wide) {
    const rows = [""];
    for (const word of words.split(" ")) {
      const longer = `${rows.at(-1)} ${word}`.trim();
      if (rows.at(-1) && width(longer, size, "bold") > wide) rows.push(word); else rows[rows.length - 1] = longer;
    }
    return rows;
  }

  function drawn(figure) {
    const { title, words, caption } = figure.dataset, picture = made("svg", { "font-family": FONT });
    const ground = made("rect", { width: WIDE, fill: "#ffffff" });
    picture.append(made("title", {}, title), made("desc", {}, caption), ground);
    let y = EDGE;
    for (const row of lines(title, 16, WIDE - 2 * EDGE)) picture.append(written(EDGE, y += 14, row, 16, { fill: INK, "font-weight": "bold" })), y += 6;
    for (const row of lines(words, 12, WIDE - 2 * EDGE)) picture.append(written(EDGE, y += 12, row, 12)), y += 4;
    const across = WIDE - 2 * EDGE - GUTTER - 4, plot = alone(figure.querySelector("svg.plot"), across), tall = +plot.getAttribute("height");
    for (const [key, value] of Object.entries({ x: EDGE + GUTTER, y: y + 22, width: across, overflow: "visible" })) plot.setAttribute(key, value);
    picture.append(plot);
    y += tall + 40;
    y = flow(picture, y + 10, entries([...figure.querySelectorAll(".legend li")], 13), 22);
    for (const row of lines(caption, 11, WIDE - 2 * EDGE)) { picture.append(written(EDGE, y, row, 11)); y += 15; }
    ground.setAttribute("height", y);
    for (const [key, value] of Object.entries({ width: WIDE, height: y, viewBox: `0 0 ${WIDE} ${y}` })) picture.setAttribute(key, value);
    return picture;
  }

  function picture(figure) {
    const paper = document.createElement("div");
    paper.className = "paper unseen";  // light, whatever the page is
    paper.append(figure.cloneNode(true));
    document.body.append(paper);
    try { return drawn(paper.firstChild); } finally { paper.remove(); }
  }

  async function painted(file, wide, tall) {
    const image = new Image(), canvas = document.createElement("canvas"), address = URL.createObjectURL(file);
    image.src = address;
    try { await image.decode(); } finally { URL.revokeObjectURL(address); }
    [canvas.width, canvas.height] = [wide * SHARPER, tall * SHARPER];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  document.addEventListener("click", async ({ target }) => {
    const kind = target.closest("[data-save]")?.dataset.save;
    if (!kind) return;
    const figure = target.closest("figure"), made = picture(figure);
    let file = new Blob([new XMLSerializer().serializeToString(made)], { type: "image/svg+xml" });
    if (kind === "png") file = await painted(file, +made.getAttribute("width"), +made.getAttribute("height"));
    const address = URL.createObjectURL(file), name = figure.dataset.title.replace(/[^\w.-]+/g, "-");
    Object.assign(document.createElement("a"), { href: address, download: `${name}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    document.getElementById("news").textContent = `Saved ${name}.${kind}`;
  });
})();

"use strict";
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // Sorting: a cell's data-v is its figure; without one its text counts. Empty cells stay last.
  const key = (row, index) => {
    const cell = row.cells[index];
    const raw = cell.dataset.v ?? cell.textContent.trim();
    const figure = Number(raw.replaceAll(",", ""));
    return raw === "" ? null : Number.isNaN(figure) ? raw : figure;
  };
  const collator = new Intl.Collator(document.documentElement.lang, { numeric: true });
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return collator.compare(String(a), String(b));
  };
  const sort = (heading) => {
    const table = heading.closest("table"), body = table.tBodies[0], index = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = Array.from(body.rows, (row) => [key(row, index), row]);
    rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : down ? compare(b, a) : compare(a, b)));
    draw(table, rows.map(([, row]) => row));
    body.replaceChildren(...rows.map(([, row]) => row));
  };

  // Searching and the verdict tiles narrow every row that names its server's verdict. Of a long table the first
  // rows are drawn until more are asked for: a browser lays out two hundred at once, not ten thousand.
  const MOST = 200;
  const texts = new Map();
  const pressed = new Set();
  const limits = new Map();
  const search = one("#search"), count = one("#count");
  const wanted = () => (search?.value ?? "").trim().toLowerCase();
  const hit = (row, words) => {
    if (words && !texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return (!words || texts.get(row).includes(words)) && (!pressed.size || pressed.has(row.dataset.verdict));
  };
  const draw = (table, rows = Array.from(table.tBodies[0].rows)) => {
    const words = wanted(), most = limits.get(table) ?? MOST;
    let hits = 0;
    for (const row of rows) {
      const shown = !("verdict" in row.dataset) || hit(row, words);
      hits += shown ? 1 : 0;
      row.hidden = !shown || hits > most;
    }
    const more = table.parentElement.nextElementSibling;
    if (more?.classList.contains("more")) {
      more.hidden = hits <= most;
      more.textContent = more.dataset.text.replace("#", hits);
    }
    return hits;
  };
  const tables = all("table.sortable");
  const narrow = () => {
    const words = wanted();
    tables.forEach((table) => {
      const hits = draw(table);
      if (table.id === "servers" && count) {
        count.textContent = words || pressed.size ? count.dataset.text.replace("#", hits) : "";
      }
    });
    all("details[data-verdict]").forEach((row) => { row.hidden = !hit(row, words); });
  };
  tables.forEach((table) => {
    all("thead th", table).forEach((heading) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(heading));
    });
    const more = table.parentElement.nextElementSibling;
    if (more?.classList.contains("more")) {
      more.addEventListener("click", () => { limits.set(table, Infinity); draw(table); });
      draw(table);
    }
  });
  search?.addEventListener("input", narrow);
  all(".tile").forEach((tile) => tile.addEventListener("click", () => {
    const on = tile.getAttribute("aria-pressed") !== "true";
    tile.setAttribute("aria-pressed", String(on));
    if (on) pressed.add(tile.dataset.of); else pressed.delete(tile.dataset.of);
    narrow();
  }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && search && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      narrow();
    }
  });

  // A link to a server opens its details.
  const open = () => {
    const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    if (target?.tagName === "DETAILS") target.open = true;
  };
  window.addEventListener("hashchange", open);
  open();

  one("#theme")?.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  all(".copy").forEach((button) => button.addEventListener("click", () => {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.from));
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    document.execCommand("copy");
    button.textContent = button.dataset.done;
  }));

  // On paper everything is open, as long as it stays a document a person would print.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    tables.forEach((table) => { limits.set(table, Infinity); draw(table); });
    const closed = all("details:not([open])");
    opened = closed.length <= 40 ? closed : [];
    opened.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
  document.documentElement.dataset.ready = "yes";
})();

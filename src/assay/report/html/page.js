"use strict";
// What makes the page of a run move. Every word and number comes from the page or from the JSON inside it and is set as
// text; without this script everything can be read.
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const make = (name, text = "", classes = "") => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    if (classes) element.className = classes;
    return element;
  };
  const jsonOf = (id) => (byId(id) ? JSON.parse(byId(id).textContent) : null);
  document.documentElement.classList.add("js");

  // Light, dark, or what the system prefers. A browser may refuse to remember it for a file.
  const setUpTheme = () => {
    const root = document.documentElement;
    const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
    const button = make("button", "", "plain theme");
    button.type = "button";
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
    };
    try {
      const kept = localStorage.getItem("assay-theme");
      if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    } catch (refused) {
      // The system's preference it is.
    }
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("assay-theme", root.dataset.theme);
      } catch (refused) {
        // It holds for this visit.
      }
      show();
    });
    prefersDark.addEventListener("change", show);
    document.querySelector("header").append(button);
    show();
  };

  const table = byId("rows");
  const body = table ? table.tBodies[0] : null;
  const heads = table ? [...table.tHead.rows[0].cells] : [];
  const rows = body ? [...body.rows] : [];

  // ---- sorting ----
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    return heads[column].classList.contains("n") || cell.textContent.trim() === "-" ? null : cell.textContent.trim();
  };
  // Rows without a value come last, whichever way.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sortBy = (column) => {
    const isAscending = heads[column].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", isAscending ? "ascending" : "descending");
    const keyed = rows.map((row, i) => ({ row, i, key: valueOf(row, column) }));
    keyed.sort((a, b) => compare(a.key, b.key, isAscending ? 1 : -1) || a.i - b.i);
    body.append(...keyed.map((each) => each.row));
  };
  const setUpSorting = () => {
    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      if (head.title) {
        button.title = head.title;
        head.removeAttribute("title");
      }
      head.textContent = "";
      head.append(button);
      button.addEventListener("click", () => sortBy(column));
    });
  };

  // ---- filters and columns ----
  const filterRows = () => {
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter((word) => word);
    const scenario = byId("scenario").value;
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const isShown = (!scenario || row.dataset.scenario === scenario) && words.every((word) => text.includes(word));
      row.hidden = !isShown;
      if (isShown) shown += 1;
    }
    say(`${shown} of ${rows.length} rows shown.`);
  };
  let verdictNote = "";
  let rowNote = "";
  const say = (text) => {
    rowNote = text;
    byId("shown").textContent = verdictNote ? `${rowNote} ${verdictNote}` : rowNote;
  };
  const setUpFilters = () => {
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("filter").addEventListener("input", filterRows);
    byId("scenario").addEventListener("change", filterRows);
    for (const box of all("[data-column]", byId("controls"))) {
      box.addEventListener("change", () => {
        const column = heads.findIndex((head) => head.dataset.metric === box.dataset.column);
        for (const row of [table.tHead.rows[0], ...rows]) row.cells[column].classList.toggle("off", !box.checked);
      });
    }
    filterRows();
  };

  // ---- another baseline ----
  const verdictColumn = 3;
  const setVerdict = (row, kind, text, detail, ratio) => {
    const cell = row.cells[verdictColumn];
    cell.className = kind ? `verdict ${kind}` : "verdict";
    cell.textContent = detail ? `${text} ` : text;
    if (detail) cell.append(make("small", detail));
    cell.removeAttribute("title"); // it speaks of the run's own baseline
    if (ratio === null) delete cell.dataset.v;
    else cell.dataset.v = String(ratio);
  };
  const setUpBaselines = () => {
    const select = byId("baseline");
    const families = jsonOf("pairs") || [];
    if (families.length === 0) {
      select.parentElement.remove();
      return;
    }
    // The run's own verdicts come back as they were.
    const own = new Map();
    for (const family of families)
      for (const { row } of family.rows) {
        const line = byId(`row-${row}`);
        if (line) own.set(row, line.cells[verdictColumn].cloneNode(true));
      }
    select.append(new Option("each scenario's own", ""));
    families.forEach((family, i) => {
      const group = document.createElement("optgroup");
      group.label = family.title;
      for (const { row, label } of family.rows) {
        if (row !== family.baseline) group.append(new Option(label, `${i}:${row}`));
      }
      select.append(group);
    });
    select.addEventListener("change", () => {
      for (const [row, cell] of own) byId(`row-${row}`).replaceChild(cell.cloneNode(true), byId(`row-${row}`).cells[verdictColumn]);
      verdictNote = "";
      if (select.value) {
        const [i, base] = select.value.split(":").map(Number);
        const family = families[i];
        for (const { row } of family.rows) {
          const line = byId(`row-${row}`);
          if (!line) continue;
          const cell = family.cells[`${row}:${base}`];
          if (row === base) setVerdict(line, "base", "baseline", "", 1);
          else if (cell) setVerdict(line, ...cell);
          else setVerdict(line, "", "-", "", null);
        }
        const name = family.rows.find(({ row }) => row === base).label;
        verdictNote = `${family.title} is compared with ${name}; the verdicts are corrected for all ${family.pairs} pairs of it.`;
      }
      say(rowNote);
    });
  };

  // ---- plots ----
  const tip = make("div", "", "tip");
  tip.hidden = true;
  tip.setAttribute("role", "tooltip");
  const showTip = (mark) => {
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    const box = mark.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, box.left + box.width / 2 - own.width / 2), window.innerWidth - own.width - 4);
    const above = box.top - own.height - 8;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
  };
  const hideTip = () => {
    tip.hidden = true;
  };
  const choose = (row) => {
    all(".chosen").forEach((each) => each.classList.remove("chosen"));
    all(`.mark[data-row="${row}"]`).forEach((mark) => mark.classList.add("chosen"));
    const line = byId(`row-${row}`);
    if (!line) return;
    if (line.hidden) {
      byId("filter").value = "";
      byId("scenario").value = "";
      filterRows();
    }
    line.classList.add("chosen");
    line.tabIndex = -1;
    line.focus({ preventScroll: true });
    line.scrollIntoView({ block: "center", inline: "nearest" });
  };
  const setUpMark = (mark, marks) => {
    mark.setAttribute("aria-label", mark.querySelector("title").textContent);
    mark.querySelector("title").remove();
    mark.setAttribute("role", mark.dataset.row === undefined ? "img" : "button");
    mark.setAttribute("tabindex", mark === marks[0] ? "0" : "-1");
    mark.addEventListener("mouseenter", () => showTip(mark));
    mark.addEventListener("mouseleave", hideTip);
    mark.addEventListener("focus", () => showTip(mark));
    mark.addEventListener("blur", hideTip);
    const open = () => {
      if (mark.dataset.row !== undefined) choose(mark.dataset.row);
    };
    mark.addEventListener("click", open);
    // One mark of a plot can be reached by Tab, the others by arrows.
    mark.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      if (event.key === "Enter" || event.key === " ") open();
      else if (event.key === "Escape") hideTip();
      else if (event.key in steps) {
        const next = marks[(marks.indexOf(mark) + steps[event.key] + marks.length) % marks.length];
        mark.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      } else return;
      event.preventDefault();
    });
  };
  const setUpPlots = () => {
    document.body.append(tip);
    for (const svg of all("svg.plot")) {
      const marks = all(".mark", svg);
      if (marks.length === 0) continue;
      svg.setAttribute("role", "group");
      // The marks are reached by Tab; the frame around them need not be.
      svg.parentElement.removeAttribute("tabindex");
      marks.forEach((mark) => setUpMark(mark, marks));
    }
    // To focus a mark scrolls it into view; what the pointer was over is gone then.
    const follow = () => {
      if (document.activeElement.classList.contains("mark")) showTip(document.activeElement);
      else hideTip();
    };
    window.addEventListener("scroll", follow, { passive: true, capture: true });
    if (body) {
      body.addEventListener("click", (event) => {
        const line = event.target.closest("tr");
        if (!line || String(window.getSelection())) return;
        all(".chosen").forEach((each) => each.classList.remove("chosen"));
        line.classList.add("chosen");
        all(`.mark[data-row="${line.id.slice(4)}"]`).forEach((mark) => mark.classList.add("chosen"));
      });
    }
  };

  // ---- the data, and print ----
  const setUpDownload = () => {
    const data = byId("results-json");
    const place = byId("download");
    if (!data || !place) return;
    const button = make("button", "Download results.json", "plain");
    button.type = "button";
    button.addEventListener("click", () => {
      const link = make("a");
      link.href = URL.createObjectURL(new Blob([data.textContent, "\n"], { type: "application/json" }));
      link.download = "results.json";
      document.body.append(link);
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    const without = data.dataset.without;
    place.textContent = without
      ? `This page holds results.json without its ${without}, which the file beside it has. `
      : "This page holds results.json: every figure, sample and text, with six digits of samples. ";
    place.append(button);
  };
  const setUpPrint = () => {
    let closed = [];
    window.addEventListener("beforeprint", () => {
      closed = all("details:not([open]):not(.columns)");
      closed.forEach((each) => (each.open = true));
    });
    window.addEventListener("afterprint", () => closed.forEach((each) => (each.open = false)));
  };

  setUpTheme();
  if (table) {
    setUpBaselines();
    setUpSorting();
    setUpFilters();
  }
  setUpPlots();
  setUpDownload();
  setUpPrint();
})();

"use strict";
// Shows the rows of the long tables page by page. Rows are text: nothing of them is read as markup.
(() => {
  const PAGE = 100;
  const FIXED = 3; // branch, class, changed; then the cells

  const cellOf = (text, head) => {
    const cell = document.createElement("td");
    cell.className = head.className;
    if (head.className === "class" || head.className === "state") {
      const tag = cell.appendChild(document.createElement("span"));
      tag.className = `tag ${text}`;
      tag.textContent = text;
    } else {
      cell.textContent = text;
    }
    return cell;
  };

  const show = (section) => {
    const rows = JSON.parse(document.getElementById(`${section.id}-rows`).textContent);
    const texts = [];
    const heads = [...section.querySelectorAll("th")];
    const body = section.querySelector("tbody");
    const frame = section.querySelector(".frame");
    const search = section.querySelector("input[type=search]");
    const branch = section.querySelector("select");
    const boxes = [...section.querySelectorAll("fieldset input")];
    const changed = section.querySelector("input[value=changed]");
    const buttons = [...section.querySelectorAll("button")];
    const state = section.querySelector("output");
    let found = rows;
    let page = 0;

    const textOf = (place) => (texts[place] ??= rows[place].slice(FIXED).join("\n").toLowerCase());

    const draw = () => {
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      page = Math.min(Math.max(page, 0), pages - 1);
      const first = page * PAGE;
      const part = found.slice(first, first + PAGE);
      body.replaceChildren(
        ...part.map((row) => {
          const line = document.createElement("tr");
          if (row[2]) line.className = "changed";
          line.append(...heads.map((head, place) => cellOf(row[FIXED + place], head)));
          return line;
        }),
      );
      const count = (value) => value.toLocaleString("en");
      state.textContent = part.length
        ? `Rows ${count(first + 1)} to ${count(first + part.length)} of ${count(found.length)}` +
          (found.length < rows.length ? ` that match (of ${count(rows.length)})` : "")
        : "No row matches.";
      for (const button of buttons) {
        const back = button.value === "first" || button.value === "-1";
        button.disabled = back ? page === 0 : page === pages - 1;
      }
    };

    const filter = () => {
      const text = search.value.trim().toLowerCase();
      const classes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      const wanted = branch?.value ? Number(branch.value) : null;
      found = rows.filter(
        (row, place) =>
          (wanted === null || row[0] === wanted) &&
          (!classes.size || classes.has(row[1])) &&
          (!changed?.checked || row[2]) &&
          (!text || textOf(place).includes(text)),
      );
      page = 0;
      frame.scrollTop = 0;
      draw();
    };

    section.querySelector(".filters").addEventListener("input", filter);
    section.querySelector(".pages").addEventListener("click", ({ target }) => {
      const step = target.closest("button")?.value;
      if (!step) return;
      page = step === "first" ? 0 : step === "last" ? Infinity : page + Number(step);
      frame.scrollTop = 0;
      draw();
    });
    filter(); // a browser may keep what was typed before the page was loaded again
  };

  document.querySelectorAll("section.rows").forEach(show);
})();

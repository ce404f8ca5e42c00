const form = document.getElementById("filter");
const shown = form.querySelector("output");
const heads = [...document.querySelectorAll("thead th[data-server]")];
const sections = [...document.querySelectorAll("tbody.section")];
const rows = [...document.querySelectorAll("tr.row")].map((element) => ({
  element,
  cells: [...element.querySelectorAll("td")],
  text: element.textContent.toLowerCase(),
}));
const undecided = new Set(document.querySelector(".matrix").dataset.undecided.split(","));

// Columns are hidden only if others are asked for: there are many cells.
let columns = heads.map((_, number) => number);

function choose(wanted) {
  const pair = [wanted.a, wanted.b].filter(Boolean);
  const chosen = heads.flatMap((head, number) => {
    return !pair.length || pair.includes(head.dataset.server) ? [number] : [];
  });
  if (String(chosen) === String(columns)) return;
  columns = chosen;
  heads.forEach((head, number) => (head.hidden = !columns.includes(number)));
  for (const { cells } of rows) cells.forEach((cell, number) => (cell.hidden = !columns.includes(number)));
}

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  const words = wordsOf(wanted.text);
  choose(wanted);
  let count = 0;
  for (const { element, cells, text } of rows) {
    const found = columns.map((number) => cells[number].dataset.verdict);
    const decided = new Set(found.filter((verdict) => verdict && !undecided.has(verdict)));
    element.hidden =
      ["section", "level"].some((key) => wanted[key] && element.dataset[key] !== wanted[key]) ||
      (wanted.verdict && !found.includes(wanted.verdict)) ||
      (wanted.differ && decided.size < 2) ||
      !words.every((word) => text.includes(word));
    count += !element.hidden;
  }
  for (const section of sections) section.hidden = !section.querySelector(".row:not([hidden])");
  shown.textContent = `${count} of ${rows.length} requirements`;
}

function follow() {
  const row = document.getElementById(location.hash.slice(1));
  if (!row) return;
  if (row.closest("[hidden]")) {
    form.reset();
    filter();
  }
  row.scrollIntoView({ block: "center" });
}

keep(form, filter);
addEventListener("hashchange", follow);
follow();

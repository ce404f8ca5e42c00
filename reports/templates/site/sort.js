// Columns of a table can be sorted: by the button in a head, or, where rows are cards, by a list.
const collator = new Intl.Collator("en", { numeric: true });
const DOWN = "descending", UP = "ascending";

function keyOf(cell) {
  const number = parseFloat(cell.dataset.sort ?? "");
  if (!Number.isNaN(number)) return number;
  return (cell.dataset.verdict ?? cell.textContent).trim();
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  // What is empty comes last.
  return Number(a === "") - Number(b === "") || collator.compare(a, b);
}

function sortBy(table, column, direction) {
  const heads = [...table.tHead.rows[0].cells];
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", direction);
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter((row) => row.cells.length === heads.length);
    const keys = new Map(rows.map((row) => [row, keyOf(row.cells[column])]));
    const sign = direction === UP ? 1 : -1;
    rows.sort((a, b) => sign * compare(keys.get(a), keys.get(b)));
    body.append(...rows);
  }
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const toggle = (column) =>
    sortBy(table, column, heads[column].getAttribute("aria-sort") === UP ? DOWN : UP);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.title = "sort";
    head.append(button);
    button.addEventListener("click", () => toggle(column));
  });
  const label = document.createElement("label");
  label.className = "sorting";
  label.textContent = "Sort by ";
  const list = document.createElement("select");
  list.append(new Option("as listed", ""), ...heads.map((head, column) => new Option(head.textContent.trim(), column)));
  list.addEventListener("change", () => list.value && sortBy(table, Number(list.value), UP));
  label.append(list);
  if (table.classList.contains("cards")) table.before(label);
}

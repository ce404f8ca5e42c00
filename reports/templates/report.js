const form = document.getElementById("filter");
const shown = form.querySelector("output");
const items = [...document.querySelectorAll("[data-slug]:not(.cell)")].map((element) => ({
  element,
  text: element.textContent.toLowerCase(),
}));
const cells = [...document.querySelectorAll(".map .cell")];
const groups = [...document.querySelectorAll(".group")];

let isFiltered = false;

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  const words = wordsOf(wanted.text);
  const fits = ({ element, text }) =>
    ["section", "level", "verdict"].every((key) => !wanted[key] || element.dataset[key] === wanted[key]) &&
    words.every((word) => text.includes(word));
  const found = new Set();
  for (const item of items) {
    const good = fits(item);
    item.element.hidden = !good;
    if (good) found.add(item.element.dataset.slug);
  }
  for (const cell of cells) cell.classList.toggle("out", !found.has(cell.dataset.slug));
  const asked = Object.values(wanted).some(Boolean);
  for (const group of groups) {
    group.hidden = !group.querySelector("li:not([hidden])");
    if (group.matches(".rest") && (asked || isFiltered)) group.open = asked && !group.hidden;
  }
  isFiltered = asked;
  shown.textContent = `${found.size} of ${cells.length} requirements`;
}

function follow() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest("[hidden]")) {
    form.reset();
    filter();
  }
  for (let rest = target.closest("details"); rest; rest = rest.parentElement.closest("details")) rest.open = true;
  target.scrollIntoView();
  target.focus({ preventScroll: true });
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    // Pages of some origins may not use the clipboard: what is selected can be copied by hand.
    getSelection().selectAllChildren(code);
    if (!document.execCommand("copy")) return;
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

// The map is one stop of the tab key; the arrows go on from there.
function step(event) {
  const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const at = cells.indexOf(event.target);
  if (at < 0 || !(event.key in moves)) return;
  event.preventDefault();
  const next = cells[Math.min(cells.length - 1, Math.max(0, at + moves[event.key]))];
  cells[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

for (const button of document.querySelectorAll(".copy")) {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
}
cells.forEach((cell, number) => (cell.tabIndex = number ? -1 : 0));
document.querySelector(".map").addEventListener("keydown", step);
addEventListener("hashchange", follow);
// Paper cannot be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});
keep(form, filter);
follow();

"use strict";
const differences = document.getElementById("differences");
const foldAll = document.getElementById("fold");
const sections = [...document.querySelectorAll("tbody.section")];

function show() {
  for (const section of sections) {
    const open = section.querySelector(".fold").getAttribute("aria-expanded") === "true";
    const rows = [...section.querySelectorAll(".row")];
    const wanted = rows.filter((row) => !differences.checked || row.classList.contains("differs"));
    for (const row of rows) row.hidden = !open || !wanted.includes(row);
    section.hidden = !wanted.length;
  }
  const all = sections.every((section) => section.querySelector('[aria-expanded="false"]'));
  foldAll.textContent = all ? "Unfold all sections" : "Fold all sections";
}

function fold(button, open) {
  button.setAttribute("aria-expanded", String(open));
}

function follow() {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!row) return;
  if (!row.classList.contains("differs")) differences.checked = false;
  fold(row.closest("tbody").querySelector(".fold"), true);
  show();
  row.querySelector("details").open = true;
  row.scrollIntoView({ block: "center" });
}

for (const button of document.querySelectorAll(".fold")) {
  button.addEventListener("click", () => {
    fold(button, button.getAttribute("aria-expanded") !== "true");
    show();
  });
}
foldAll.addEventListener("click", () => {
  const open = foldAll.textContent.startsWith("Unfold");
  for (const button of document.querySelectorAll(".fold")) fold(button, open);
  show();
});
differences.addEventListener("change", show);
differences.parentElement.hidden = false;
foldAll.hidden = false;
addEventListener("hashchange", follow);
show();
follow();

const form = document.getElementById("filter");
const shown = form.querySelector("output");
const rows = [...document.querySelectorAll(".servers tbody tr")];
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  const words = wordsOf(wanted.text);
  for (const row of rows) {
    row.hidden =
      ["verdict", "profile"].some((key) => wanted[key] && row.dataset[key] !== wanted[key]) ||
      !words.every((word) => texts.get(row).includes(word));
  }
  shown.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} servers`;
}

keep(form, filter);

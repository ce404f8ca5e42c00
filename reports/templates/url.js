"use strict";
// Filters are in the query of the address: a link to it shows the same.
let remembering;

function recall(form) {
  const asked = new URLSearchParams(location.search);
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = asked.has(field.name);
    else if (asked.has(field.name)) field.value = asked.get(field.name);
    // It may name what is not there any more.
    if (field.selectedIndex === -1) field.value = "";
  }
}

function remember(form) {
  // Browsers refuse to do it at each key.
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const address = new URL(location);
    address.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", address);
  }, 250);
}

function keep(form, filter) {
  const changed = () => {
    filter();
    remember(form);
  };
  form.hidden = false;
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(changed));
  recall(form);
  filter();
}

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// Sorts and filters the tables of claims; without scripts they are plain, in the order of the papers' figures.
const tables = [...document.querySelectorAll("table.claims")];
const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr")]);
const form = document.getElementById("filter");
const folded = document.getElementById("not-run");
const choices = ["paper", "owner", "verdict"];
const value = (row, column) => row.cells[column].dataset.order ?? row.cells[column].textContent.trim();

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = choices.some((name) => wanted[name] && row.dataset[name] !== wanted[name])
      || words.some((word) => !text.includes(word));
  }
  if (wanted.verdict === "not run") folded.open = true;
  form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
}

function sort(table, header, column) {
  const ascending = header.ariaSort !== "ascending";
  table.querySelectorAll("th").forEach((each) => { each.ariaSort = null; });
  header.ariaSort = ascending ? "ascending" : "descending";
  const collator = new Intl.Collator("en", { numeric: true });
  const sorted = [...table.querySelectorAll("tbody tr")].sort((a, b) => collator.compare(value(a, column), value(b, column)));
  table.tBodies[0].append(...(ascending ? sorted : sorted.reverse()));
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.hidden) form.reset();
  const row = target?.matches("tr");
  for (let each = (row && target.querySelector("details")) || target; each; each = each.parentElement) {
    if (each.tagName === "DETAILS") each.open = true;
  }
  if (row) target.scrollIntoView();
}

if (rows.length) {
  form.hidden = false;
  form.addEventListener("input", filter);
  // The fields are empty only after the event.
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const table of tables) {
    table.querySelectorAll("th").forEach((header, column) => {
      const button = document.createElement("button");
      button.textContent = header.textContent;
      button.addEventListener("click", () => sort(table, header, column));
      header.replaceChildren(button);
    });
  }
  document.querySelectorAll("[data-filter]").forEach((link) => link.addEventListener("click", () => {
    form.reset();
    form.elements.paper.value = link.dataset.filter;
    filter();
  }));
  addEventListener("hashchange", reveal);
  filter();
  reveal();
}

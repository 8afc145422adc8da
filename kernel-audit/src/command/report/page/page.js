// Sorts tables by a click on a heading, or Enter there: numbers by `data-value`, other cells as text.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, headings, heading, column));
  });
}

function sort(table, headings, heading, column) {
  const body = table.tBodies[0];
  const numbers = heading.classList.contains("number");
  // Numbers are sorted with the largest first, because large numbers matter most.
  const first = numbers ? "descending" : "ascending";
  const second = numbers ? "ascending" : "descending";
  const order = heading.getAttribute("aria-sort") === first ? second : first;
  const sign = order === "ascending" ? 1 : -1;
  const key = (row) => {
    const cell = row.cells[column];
    return numbers ? Number(cell.dataset.value ?? Number.NEGATIVE_INFINITY) : cell.textContent;
  };
  const compare = numbers ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : new Intl.Collator(undefined, { numeric: true }).compare;
  const rows = [...body.rows].map((row) => [key(row), row]);
  rows.sort(([a], [b]) => sign * compare(a, b));
  body.append(...rows.map(([, row]) => row));
  headings.forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", order);
}

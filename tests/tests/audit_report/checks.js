// Opens all details, measures every element, and sorts every table. Sends the result to the outer page as JSON.
"use strict";
const result = { errors, too_wide: [], faint: [], not_sorted: [], sorted: 0, texts: 0 };
document.querySelectorAll("details").forEach((details) => (details.open = true));
result.width = innerWidth;
result.dark = matchMedia("(prefers-color-scheme: dark)").matches;
result.bars = document.querySelectorAll(".timeline rect[class], .timeline path[class]").length;

const describe = (element) => `${element.tagName} ${element.className.baseVal ?? element.className}: ${element.textContent.slice(0, 60)}`;
if (document.documentElement.scrollWidth > innerWidth) result.too_wide.push("the page");
for (const element of document.body.querySelectorAll("*")) {
  // An element inside a scrolling box may be wider than the page.
  const box = element.parentElement.closest(".wide, pre");
  if (!box && element.getBoundingClientRect().right > innerWidth + 0.5) result.too_wide.push(describe(element));
}

// The least contrast is that of WCAG 2: 4.5 for texts, and 3 for graphics.
const rgb = (color) => color.match(/[\d.]+/g).map(Number);
const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
const luminance = (color) => {
  const [red, green, blue] = rgb(color).map(channel);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (a, b) => {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
};
const isClear = (color) => rgb(color)[3] === 0;
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = getComputedStyle(at).backgroundColor;
    if (!isClear(color)) return color;
  }
  return "rgb(0, 0, 0)";
};
const demand = (element, color, backs, least) => {
  for (const back of backs) if (contrast(color, back) < least) result.faint.push(`${describe(element)}: ${color} on ${back}`);
};
for (const element of document.body.querySelectorAll("*:not(script, style, title)")) {
  const style = getComputedStyle(element);
  const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (hasText) {
    result.texts += 1;
    demand(element, element.closest("svg") ? style.fill : style.color, [behind(element)], 4.5);
  }
}
const after = document.createElementNS("http://www.w3.org/2000/svg", "rect");
after.setAttribute("class", "after");
document.querySelector(".timeline").append(after);
const backs = [behind(document.body), getComputedStyle(after).fill];
for (const mark of document.querySelectorAll(".timeline rect[class]:not(.after), .timeline path[class], .timeline .ready")) {
  const { fill, stroke } = getComputedStyle(mark);
  demand(mark, fill.startsWith("rgb") && !mark.matches("line") ? fill : stroke, backs, 3);
}

// Each heading is clicked once, and again for the other order.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const numbers = heading.classList.contains("number");
    const button = heading.querySelector("button");
    if (!button || button.tabIndex < 0) result.not_sorted.push(`${heading.textContent} has no button`);
    for (const order of numbers ? ["descending", "ascending"] : ["ascending", "descending"]) {
      button.click();
      const cells = [...table.tBodies[0].rows].map((row) => row.cells[column]);
      const keys = cells.map((cell) => (numbers ? Number(cell.dataset.value) : cell.textContent));
      const collator = new Intl.Collator(undefined, { numeric: true });
      const compare = numbers ? (a, b) => a - b : collator.compare;
      const sign = order === "ascending" ? 1 : -1;
      const isSorted = keys.every((key, index) => index === 0 || sign * compare(keys[index - 1], key) <= 0);
      const others = headings.filter((other) => other !== heading && other.hasAttribute("aria-sort"));
      if (!isSorted || others.length || heading.getAttribute("aria-sort") !== order) {
        result.not_sorted.push(`${heading.textContent} ${order}`);
      }
      result.sorted += 1;
    }
  });
}
parent.postMessage(JSON.stringify(result), "*");

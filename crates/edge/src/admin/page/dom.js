// Elements that are updated in place, so that focus, selection and scroll stay.

export const $ = (id) => document.getElementById(id);

// What clients send (paths, names) is only ever put in as text.
export function element(name, className, ...content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...content) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...content);
  return node;
}

// Gives `node` these parts, if it has others: texts, or [class, text, title].
export function fill(node, ...parts) {
  const wanted = parts.length ? parts : [""];
  const signature = JSON.stringify(wanted);
  if (shown.get(node) === signature) return node;
  shown.set(node, signature);
  node.replaceChildren(...wanted.map((part) => {
    if (!Array.isArray(part)) return part ?? "";
    const span = element("span", part[0], part[1]);
    if (part[2]) span.title = part[2];
    return span;
  }));
  return node;
}

const shown = new WeakMap();

// Gives a list of definitions these entries: [term, ...parts].
export function define(list, entries) {
  keyed(list, entries, ([term]) => term, () => element("div", "", element("dt"), element("dd")), (node, [term, ...parts]) => {
    fill(node.firstChild, term);
    fill(node.lastChild, ...parts);
  });
}

// Gives `host` a child for each item. A child lives as long as its key. While one has the focus they stay in
// their order, and the one with the focus stays even without an item.
export function keyed(host, items, key, make, update) {
  const old = new Map([...host.children].map((node) => [keys.get(node), node]));
  const focused = [...host.children].find((node) => node.contains(document.activeElement));
  const nodes = items.map((item) => {
    const name = String(key(item));
    const node = old.get(name) ?? make(item);
    keys.set(node, name);
    old.delete(name);
    update(node, item);
    return node;
  });
  for (const node of old.values()) if (node !== focused) node.remove();
  if (focused) {
    for (const node of nodes) if (!node.parentNode) host.append(node);
    return;
  }
  let place = host.firstChild;
  for (const node of nodes) {
    if (node === place) place = place.nextSibling;
    else host.insertBefore(node, place);
  }
}

const keys = new WeakMap();

// Fills a table's body. Each column has a class `c` and the `parts` of an item, or an `act` for a button
// around them. The first column heads the row.
export function table(body, items, key, columns, mark) {
  const make = () => {
    const row = element("tr");
    columns.forEach((column, place) => {
      const cell = element(place ? "td" : "th", column.c);
      if (!place) cell.scope = "row";
      if (column.act) {
        const button = element("button", "link");
        button.type = "button";
        button.addEventListener("click", () => column.act(of.get(row)));
        cell.append(button);
      }
      row.append(cell);
    });
    return row;
  };
  keyed(body, items, key, make, (row, item) => {
    of.set(row, item);
    row.classList.toggle("chosen", Boolean(mark?.(item)));
    columns.forEach((column, place) => {
      const cell = row.children[place];
      if (column.draw) column.draw(cell, item);
      else fill(column.act ? cell.firstChild : cell, ...[column.parts(item)].flat(1));
    });
  });
}

const of = new WeakMap();

// A row that says why there are none.
export function none(body, columns, text) {
  if (body.children.length) return;
  const cell = element("td", "faint", text);
  cell.colSpan = columns;
  body.append(element("tr", "", cell));
}

// Remembers a setting of the page.
export function remember(control, name, changed) {
  const kept = localStorage.getItem(name);
  if (kept !== null && [...control.options].some((option) => option.value === kept)) control.value = kept;
  control.addEventListener("change", () => {
    localStorage.setItem(name, control.value);
    changed();
  });
}

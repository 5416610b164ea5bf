// Making elements. Text always goes in as text, so a module called "<b>" is shown as that.

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

// What a cell holds of a text: names of any length leave room for other rows.
export function clipped(text) {
  return String(text).length > 300 ? make("div", { class: "long", tabindex: 0 }, text) : text;
}

// A table of texts; columns: [{title, number}].
export function makeTable(columns, rows, attributes = {}) {
  const cell = (name, text, { number } = {}) => make(name, { class: number ? "number" : "" }, clipped(text));
  return make(
    "table",
    attributes,
    make("thead", {}, make("tr", {}, ...columns.map((column) => cell("th", column.title, column)))),
    make(
      "tbody",
      {},
      ...rows.map((row) => make("tr", {}, ...row.map((text, i) => cell("td", text, columns[i])))),
    ),
  );
}

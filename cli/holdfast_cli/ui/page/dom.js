// Elements, numbers and times. Text from the cluster only ever becomes a text node or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; a child that is no node becomes text. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const digits = new Intl.NumberFormat("en-US");

/** 1,234,567; a dash for what is not known. */
export function count(number) {
  return number === null || number === undefined ? "–" : digits.format(number);
}

const PREFIXES = [" k", " M", " G", " T", " P", " E"];

/** 0.4/s, 123/s, 12.3 k/s, as the commands have it. */
export function rate(perSecond) {
  let [number, prefix] = [perSecond, ""];
  // What rounds to 1,000 takes the next prefix.
  for (const next of PREFIXES) {
    if (number < 1000 - (prefix ? 0.05 : 0.5)) break;
    number /= 1000;
    prefix = next;
  }
  const digits = prefix || (number < 9.95 && !Number.isInteger(number)) ? 1 : 0;
  return `${number.toFixed(digits)}${prefix}/s`;
}

export function many(number, what) {
  return `${count(number)} ${what}${number === 1 ? "" : "s"}`;
}

/** How long ago a moment is: 3 min 12 s. Clocks differ a little, so a moment to come counts as now. */
export function age(at, now) {
  const s = Math.max(0, Math.round((now - at) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${count(Math.floor(s / 86400))} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** A time that `tick` keeps up to date; the moment itself is in its tooltip. */
export function ago(at, word = "") {
  const element = el("time", {});
  setAgo(element, at, word);
  return element;
}

export function setAgo(element, at, word = "") {
  if (at === null || at === undefined) {
    delete element.dataset.at;
    setText(element, "–");
    return;
  }
  if (element.dataset.at !== String(at)) {
    element.dataset.at = at;
    element.dataset.word = word;
    element.title = new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
  }
  setText(element, age(at, Date.now()) + word);
}

/** Say anew how long ago all moments on the page are. */
export function tick() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-at]")) {
    setText(element, age(Number(element.dataset.at), now) + (element.dataset.word ?? ""));
  }
}

const SIGNS = { stalled: "■", "not ready": "▲", changing: "◐", unknown: "?", off: "○", ready: "●" };

/** How an app does, as a sign and a word. */
export function standing(word) {
  const element = el("span", {});
  setStanding(element, word);
  return element;
}

export function setStanding(element, word) {
  if (element.dataset.word === word) return;
  element.dataset.word = word;
  element.className = `standing s-${word.replace(" ", "-")}`;
  element.replaceChildren(el("span", { class: "sign", "aria-hidden": "true" }, SIGNS[word] ?? "?"), word);
}

/** A table: `columns` are [title, class]. */
export function table(label, columns, rows) {
  const head = columns.map(([title, css]) => el("th", { scope: "col", class: css }, title));
  const cells = (row) => row.map((cell, i) => el("td", { class: columns[i][1] }, cell));
  return el(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))),
  );
}

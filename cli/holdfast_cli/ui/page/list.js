// The list of apps: those that need somebody first, a filter, and any other order by a column's head.

import { count, el, many, setAgo, setStanding, setText } from "./dom.js";

const STANDINGS = ["stalled", "not ready", "changing", "unknown", "off", "ready"];
const number = (app, name) => app[name] ?? -1;
const COLUMNS = [
  { title: "State", css: "", by: (app) => STANDINGS.indexOf(app.standing) },
  { title: "Namespace", css: "namespace", by: (app) => app.namespace },
  { title: "App", css: "", by: (app) => app.app },
  { title: "Reason", css: "why", by: (app) => app.reason ?? "" },
  { title: "Lag", css: "number", by: (app) => -number(app, "lag") },
  { title: "Last batch", css: "number", by: (app) => number(app, "progressed") },
  { title: "Placed", css: "number", by: (app) => app.tasks ?? -1 },
  { title: "Attempt", css: "number less", by: (app) => -number(app, "attempt") },
  { title: "Restarts", css: "number", by: (app) => -number(app, "restarts") },
  { title: "Age", css: "number less", by: (app) => -number(app, "created") },
];
const COLLATOR = new Intl.Collator("en", { numeric: true });
let last = null;
let filter = "";
let order = { column: 0, backward: false };

export class ListPage {
  constructor(ask) {
    this.ask = ask;
    this.apps = null;
    this.rows = new Map();
    this.box = el("input", {
      type: "search",
      id: "filter",
      placeholder: "name, namespace, reason or state   ( / )",
      autocomplete: "off",
      spellcheck: "false",
      value: filter,
      oninput: () => {
        filter = this.box.value;
        this.draw();
      },
    });
    this.summary = el("p", { class: "summary", role: "status" });
    this.note = el("p", { class: "note", hidden: true });
    this.heads = COLUMNS.map((column, i) => {
      const button = el("button", { type: "button", onclick: () => this.sort(i) }, column.title);
      return el("th", { scope: "col", class: column.css }, button);
    });
    this.body = el("tbody", {});
    this.table = el("table", { class: "apps" }, el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.empty = el("p", { class: "empty", hidden: true });
    this.wide = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "apps", hidden: true }, this.table);
    const tools = el("div", { class: "tools" }, el("label", { for: "filter" }, "Filter"), this.box, this.summary);
    this.element = el("div", {}, tools, this.note, this.wide, this.empty);
    if (last !== null) this.show(last); // as it was before an app was opened
  }

  async look() {
    const tree = await this.ask("apps");
    if (tree === null) return;
    last = tree;
    this.show(tree);
  }

  show(tree) {
    this.apps = tree.apps;
    this.scope = tree.namespaces;
    const unseen = tree.refusals.map((why) => `Apps are missing here: ${why}`);
    const notes = tree.missing === null ? unseen : [...unseen, `Lag and last batch are not known: ${tree.missing}`];
    this.note.hidden = notes.length === 0;
    setText(this.note, notes.join(". "));
    this.draw();
  }

  sort(column) {
    order = { column, backward: order.column === column && !order.backward };
    this.draw();
  }

  draw() {
    if (this.apps === null) return;
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this.apps.filter((app) => words.every((word) => text(app).includes(word)));
    this.place(ordered(matching));
    this.table.classList.toggle("all", this.scope.length !== 1);
    this.heads.forEach((head, i) => {
      const way = i !== order.column ? "none" : order.backward ? "descending" : "ascending";
      if (head.getAttribute("aria-sort") !== way) head.setAttribute("aria-sort", way);
    });
    this.wide.hidden = matching.length === 0;
    this.empty.hidden = matching.length > 0;
    const named = `in namespace ${this.scope.join(" or ")}; holdfast ui -n NAMESPACE shows those of another, -A those of all`;
    const nothing = `There is no StreamApp ${this.scope.length ? named : "on this cluster"}.`;
    setText(this.empty, this.apps.length ? `None of ${many(this.apps.length, "app")} matches ${filter}.` : nothing);
    setText(this.summary, summary(matching, this.apps.length));
  }

  /** Rows in this order; what is there already is changed only where it differs. */
  place(apps) {
    const keys = new Set();
    let next = this.body.firstElementChild;
    const fresh = document.createDocumentFragment();
    for (const app of apps) {
      const key = `${app.namespace}/${app.app}`;
      keys.add(key);
      let row = this.rows.get(key);
      if (row === undefined) {
        row = new Row(app);
        this.rows.set(key, row);
      }
      row.show(app);
      if (row.element === next) next = next.nextElementSibling;
      else if (next === null) fresh.append(row.element);
      else this.body.insertBefore(row.element, next);
    }
    for (const [key, row] of this.rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.rows.delete(key);
    }
    this.body.append(fresh);
  }
}

function text(app) {
  return `${app.namespace}/${app.app} ${app.standing} ${app.reason ?? ""} ${app.message}`.toLowerCase();
}

function ordered(apps) {
  const { by } = COLUMNS[order.column];
  const sign = order.backward ? -1 : 1;
  if (order.column === 0 && !order.backward) return apps;
  const compare = (a, b) => (typeof a === "string" ? COLLATOR.compare(a, b) : a - b);
  return apps.toSorted((a, b) => sign * compare(by(a), by(b)));
}

function summary(apps, all) {
  const counts = new Map(STANDINGS.map((standing) => [standing, 0]));
  for (const app of apps) counts.set(app.standing, (counts.get(app.standing) ?? 0) + 1);
  const parts = [...counts].filter(([, n]) => n > 0).map(([standing, n]) => `${count(n)} ${standing}`);
  const total = apps.length === all ? many(all, "app") : `${count(apps.length)} of ${many(all, "app")}`;
  return [total, ...parts].join(" · ");
}

class Row {
  constructor(app) {
    this.cells = COLUMNS.map((column) => el("td", { class: column.css }));
    const [state, , name, why, , batch, , , , age] = this.cells;
    this.standing = el("span", {});
    this.reason = el("b", {});
    this.message = el("span", { class: "message" });
    this.batch = el("time", {});
    this.age = el("time", {});
    state.append(this.standing);
    const place = `#/apps/${encodeURIComponent(app.namespace)}/${encodeURIComponent(app.app)}`;
    name.append(el("a", { href: place }, app.app));
    why.append(this.reason, " ", this.message);
    batch.append(this.batch);
    age.append(this.age);
    setText(this.cells[1], app.namespace);
    this.element = el("tr", {}, this.cells);
  }

  show(app) {
    if (this.app === app) return;
    this.app = app;
    const [, , , why, lag, , placed, attempt, restarts] = this.cells;
    setStanding(this.standing, app.standing);
    setText(this.reason, app.reason ?? "");
    setText(this.message, app.message);
    if (why.title !== app.message) why.title = app.message;
    setText(lag, count(app.lag));
    lag.title = app.missing ?? "";
    setAgo(this.batch, app.progressed);
    setText(placed, app.placed ?? count(app.tasks));
    setText(attempt, count(app.attempt));
    setText(restarts, count(app.restarts));
    setAgo(this.age, app.created);
  }
}

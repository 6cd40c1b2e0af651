// One app. Each section is drawn again only when its part of the answer differs, so that nothing that is read moves.

import { ago, count, el, many, setText, standing, table } from "./dom.js";
import { LogPanel } from "./log.js";
import { PlanPicture } from "./plan.js";

/** A driver reports every minute: what an older report says does not flow any more, as far as is known. */
const SILENT = 120_000;

export class AppPage {
  constructor(namespace, name, ask) {
    Object.assign(this, { namespace, name, ask, parts: new Map(), open: null, report: null });
    this.path = `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    this.plan = new PlanPicture();
    this.log = new LogPanel((pod) => ask(`logs/${this.path}/${encodeURIComponent(pod)}`));
    this.head = el("div", { class: "head" });
    this.sections = ["Conditions", "Failures", "Plan", "Tasks", "Pods", "Log", "Events"].map((title) => {
      const heading = el("h2", {}, title);
      const aside = el("span", { class: "aside" });
      heading.append(" ", aside);
      const body = el("div", {});
      return { title, aside, body, element: el("section", { "aria-label": title }, heading, body) };
    });
    this.section("Plan").body.append(this.plan.element);
    this.section("Log").body.append(this.log.element);
    const elements = this.sections.map((section) => section.element);
    this.element = el("div", {}, el("nav", {}, el("a", { href: "#/" }, "← all apps")), this.head, elements);
    for (const section of this.sections) section.element.hidden = true;
  }

  section(title) {
    return this.sections.find((section) => section.title === title);
  }

  async look() {
    this.showRows();
    const tree = await this.ask(`apps/${this.path}`);
    if (tree !== null) this.draw(tree);
    const plan = await this.ask(`plans/${this.path}`);
    if (plan !== null) this.plan.draw(plan);
    await this.log.look();
  }

  draw(tree) {
    for (const section of this.sections) section.element.hidden = false;
    const { report, assignment, missing } = tree;
    const verdict = [tree.standing, tree.reason, tree.message, tree.explanation, tree.status, report, tree.upstream];
    this.part("head", verdict, () => this.head.replaceChildren(...head(tree, this)));
    this.into("Conditions", [tree.conditions], "", () => conditions(tree.conditions));
    setText(this.section("Plan").aside, report ? lagWords(report) : "");
    this.plan.showLags(report?.progressed == null ? {} : report.lags);
    this.report = report;
    this.showRows();
    const placed = assignment ? `version ${assignment.version}, for attempt ${assignment.attempt}` : "";
    this.into("Tasks", [assignment, missing.assignment, podStates(tree.pods)], placed, () =>
      assignment ? tasks(assignment, tree.pods) : unknown(missing.assignment),
    );
    this.into("Failures", [tree.failures], tree.failures.length ? "latest first" : "", () => failures(tree.failures));
    this.into("Pods", [tree.pods, missing.pods], "", () => (tree.pods ? this.pods(tree.pods) : unknown(missing.pods)));
    this.log.offer(tree.pods ?? []);
    const events = tree.events ? "a cluster forgets them after an hour" : "";
    this.into("Events", [tree.events, missing.events], events, () =>
      tree.events ? eventTable(tree.events) : unknown(missing.events),
    );
  }

  showRows() {
    this.plan.showRows(this.report && Date.now() - this.report.at < SILENT ? this.report.rows : null);
  }

  /** Draw a part if what it shows is not what it showed. */
  part(name, shown, draw) {
    const text = JSON.stringify(shown);
    if (this.parts.get(name) === text) return;
    this.parts.set(name, text);
    draw();
  }

  into(title, shown, aside, content) {
    const section = this.section(title);
    setText(section.aside, aside);
    this.part(title, shown, () => section.body.replaceChildren(content()));
  }

  pods(pods) {
    if (pods.length === 0) return el("p", { class: "empty" }, "It has no pods.");
    const pod = [["Pod", "mono"], ["Who", ""], ["Attempt", "number"], ["Phase", ""], ["Node", "mono"], ["Age", "number"]];
    const columns = [...pod, ["Note", "text"], ["", ""]];
    const rows = pods.map((pod) => [
      pod.pod,
      pod.label === "driver" ? "driver" : `executor ${pod.label}`,
      count(pod.attempt),
      pod.phase,
      pod.node ?? "–",
      ago(pod.created),
      pod.note || "",
      el("button", { type: "button", "aria-label": `log of ${pod.pod}`, onclick: () => this.show(pod.pod) }, "log"),
    ]);
    return table("pods", columns, rows);
  }

  async show(pod) {
    await this.log.show(pod);
    this.section("Log").element.scrollIntoView();
    this.log.choice.focus({ preventScroll: true });
  }
}

function lagWords(report) {
  return report.progressed === null
    ? "lag is not known before the first batch of this attempt"
    : `${many(report.lag, "record")} unread over all inputs when the last batch was planned`;
}

function unknown(why) {
  return el("p", { class: "empty" }, `Not known: ${why}`);
}

function head(tree, page) {
  const title = el("h1", {}, el("span", { class: "soft" }, `${tree.namespace} / `), tree.app);
  const reason = el("b", {}, tree.reason ?? "");
  const verdict = el("p", { class: "verdict" }, standing(tree.standing), " ", reason, " ", tree.message);
  return [title, verdict, explanation(tree, page), facts(tree)];
}

function explanation({ explanation: text, standing: word }, page) {
  if (text === null) return "";
  const open = page.open ?? ["stalled", "not ready"].includes(word);
  const advice = text.advice.map(({ title, text: words }) => [el("dt", {}, title), el("dd", {}, marked(words))]);
  const parts = [el("dt", {}, "Means"), el("dd", {}, marked(text.sentence)), ...advice];
  return el(
    "details",
    { class: "explanation", open },
    el("summary", { onclick: (event) => (page.open = !event.target.parentElement.open) }, `What ${text.reason} means, and what to do`),
    el("dl", {}, parts),
  );
}

/** A text with what stands between backticks as code. */
function marked(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

function facts(tree) {
  const { status, report, missing } = tree;
  const list = [
    ["Lag", report?.progressed == null ? "–" : count(report.lag), "records unread"],
    ["Last batch", ago(report?.progressed, " ago"), report?.progressed == null ? "" : `number ${count(report.batch)}`],
    ["Tasks placed", status.placed ?? "–", "where state is"],
    ["Partitions", count(status.partitions), "of inputs"],
    ["Attempt", count(status.attempt), `of run ${status.runId ?? "–"}`],
    ["Restarts", count(status.restarts), status.failures ? `${many(status.failures, "failure")} in a row` : "of this run"],
    ["Age", ago(tree.created), `generation ${tree.generation}`],
  ];
  if (report?.waiting) list.push(["Waiting", count(report.waiting), "rows in joins"]);
  const figures = list.map(([name, value, more]) =>
    el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, el("strong", {}, value), el("small", {}, more))),
  );
  const remarks = [
    ["Draining", status.draining],
    ["Ended", status.ended],
    ["Next attempt", status.retryAt],
    ["Report", report ? null : `not known: ${missing.report}`],
    ["Loading", report?.loading],
    ["Incomplete", report?.incomplete && `tables that lack rows: ${report.incomplete}`],
    ["Held back", report?.heldBack],
    ...tree.upstream.map((upstream) => ["Because", `${upstream.app}: ${upstream.message}`]),
  ].filter(([, text]) => text);
  const lines = remarks.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)));
  return el("div", {}, el("dl", { class: "facts" }, figures), lines.length ? el("dl", { class: "remarks" }, lines) : null);
}

function conditions(list) {
  if (list.length === 0) return el("p", { class: "empty" }, "The operator has not reported on it yet.");
  const columns = [["Condition", ""], ["Status", ""], ["Since", "number"], ["Reason", ""], ["Message", "text"]];
  const rows = list.map((condition) => [
    condition.type,
    el("span", { class: condition.good ? "good" : "bad" }, `${condition.good ? "✓" : "▲"} ${condition.status}`),
    ago(condition.since),
    el("abbr", { title: condition.meaning }, condition.reason),
    condition.message,
  ]);
  return table("conditions", columns, rows);
}

function podStates(pods) {
  return (pods ?? []).map((pod) => [pod.pod, pod.phase, pod.node]);
}

function tasks(assignment, pods) {
  const states = new Map((pods ?? []).map((pod) => [pod.pod, pod]));
  const names = assignment.processors.flatMap((row) => row.tasks);
  const prefix = commonPrefix(names);
  const columns = [["Place, executor, node", ""], ["Tasks", "number"], [prefix ? `${prefix}N` : "Which", "cells"]];
  const rows = assignment.processors.map(({ location, processor, tasks: own }) => {
    const pod = states.get(processor);
    const cells = own.map((task) => el("span", { title: task }, task.slice(prefix.length)));
    const list = el("div", { class: "tasks" }, cells);
    const soft = [processor, pod ? `${pod.phase} on ${pod.node ?? "no node yet"}` : "its pod is not known"];
    const place = el("div", { class: "place" }, el("b", {}, location), soft.map((text) => el("span", { class: "soft" }, text)));
    return [place, count(own.length), list];
  });
  return table("tasks on their places", columns, rows);
}

/** What all names begin with, up to a dash before a number. */
function commonPrefix(names) {
  const prefix = names[0]?.match(/^(.*-)\d+$/)?.[1] ?? "";
  const same = (name) => name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length));
  return prefix && names.every(same) ? prefix : "";
}

function failures(list) {
  if (list.length === 0) return el("p", { class: "empty" }, "None that the cluster still knows of.");
  const columns = [["When", "number"], ["What", ""], ["Text", "text"]];
  return table("failures", columns, list.map((failure) => [ago(failure.at, " ago"), failure.what, failure.text]));
}

function eventTable(list) {
  if (list.length === 0) return el("p", { class: "empty" }, "None.");
  const columns = [["When", "number"], ["Event", ""], ["Text", "text"]];
  const name = (event) => el("span", { class: event.warning ? "bad" : "" }, `${event.warning ? "▲ " : ""}${event.reason}`);
  return table("events", columns, list.map((event) => [ago(event.at, " ago"), name(event), event.note]));
}

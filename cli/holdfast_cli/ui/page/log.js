// The end of a pod's log, read on while it is shown; it stays at its end unless somebody scrolls up.

import { el, many, setText } from "./dom.js";

export class LogPanel {
  constructor(ask) {
    Object.assign(this, { ask, pod: null, read: new Map() });
    this.choice = el("select", { id: "log-of", onchange: () => this.show(this.choice.value || null) });
    this.said = el("span", { class: "aside", role: "status" });
    this.text = el("pre", { tabindex: "0", "aria-label": "log", hidden: true });
    this.element = el("div", {}, el("p", {}, el("label", { for: "log-of" }, "Pod "), this.choice, " ", this.said), this.text);
  }

  /** The pods whose logs can be shown. */
  offer(pods) {
    const names = pods.filter((pod) => pod.log).map((pod) => pod.pod);
    if (this.pod && !names.includes(this.pod)) names.push(this.pod);
    const text = names.join(" ");
    if (this.offered === text) return;
    this.offered = text;
    const options = names.map((name) => el("option", { value: name }, name));
    this.choice.replaceChildren(el("option", { value: "" }, "choose one"), ...options);
    this.choice.value = this.pod ?? "";
  }

  show(pod) {
    this.pod = pod;
    if (pod && ![...this.choice.options].some((option) => option.value === pod)) {
      this.choice.append(el("option", { value: pod }, pod));
    }
    this.choice.value = pod ?? "";
    this.text.hidden = true;
    this.text.replaceChildren();
    setText(this.said, pod ? "reading" : "");
    return this.look();
  }

  async look() {
    const { pod } = this;
    if (pod === null) return;
    try {
      const fresh = await this.ask(pod);
      if (fresh !== null) this.read.set(pod, fresh); // it is not sent again while it is the same
    } catch (error) {
      if (pod === this.pod) setText(this.said, error.message);
      return;
    }
    if (pod !== this.pod) return;
    const tree = this.read.get(pod);
    const lines = tree.lines.join("\n");
    setText(this.said, tree.why ?? `${tree.cut ? "the last " : ""}${many(tree.lines.length, "line")}`);
    const end = this.text.hidden || this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 4;
    this.text.hidden = tree.lines.length === 0;
    if (this.text.textContent === lines) return;
    this.text.textContent = lines;
    if (end) this.text.scrollTop = this.text.scrollHeight;
  }
}

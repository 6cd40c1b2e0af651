// The plan as a picture: the server says where cards and lines are.

import { count, el, rate, setText, svg } from "./dom.js";

const PAD = 12;
const LINE = 16;
const LID = 7;
const LETTER = 6.82;
const MARGIN = 4;

export class PlanPicture {
  constructor() {
    this.note = el("p", { class: "empty", hidden: true });
    this.box = el("div", { class: "wide plan", tabindex: "0", role: "region", "aria-label": "plan" });
    this.element = el("div", {}, this.note, this.box);
    this.lags = {};
    this.lagTexts = new Map();
    this.rows = null;
    this.rowTexts = [];
  }

  draw({ drawing, why }) {
    this.note.hidden = why === null;
    setText(this.note, why ?? "");
    this.box.hidden = drawing === null;
    this.lagTexts.clear();
    this.rowTexts = [];
    if (drawing === null) return;
    const { width, height, cards, lines } = drawing;
    const size = { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
    const view = `${-MARGIN} ${-MARGIN} ${size.width} ${size.height}`;
    this.mostStreams = drawing.mostStreams;
    const chips = lines.filter((line) => line.partitions).map(chip);
    const rates = lines.filter((line) => line.rows).map((line) => this.rate(line));
    const parts = [lines.map(drawLine), cards.map((card) => this.card(card)), chips, rates];
    const label = `the plan: ${cards.map((card) => card.title).join("; ")}`;
    this.box.replaceChildren(svg("svg", { ...size, viewBox: view, role: "img", "aria-label": label }, parts));
    this.showLags(this.lags);
    this.showRows(this.rows);
  }

  /** The lag of each stream that is read, on its card. */
  showLags(lags) {
    this.lags = lags;
    for (const [stream, text] of this.lagTexts) {
      setText(text, Object.hasOwn(lags, stream) ? `${count(lags[stream])} unread` : "");
    }
  }

  /** Rows a second of each stream, on lines and cards; null: they are not known. */
  showRows(rows) {
    this.rows = rows;
    for (const { way, stream, show } of this.rowTexts) show(rows && perSecond(rows[way], stream, this.mostStreams));
  }

  rate(line) {
    const box = svg("rect", { y: line.y - (line.partitions ? 43 : 27), height: LINE });
    const text = svg("text", { x: line.x, y: line.y - (line.partitions ? 31 : 15) });
    const title = svg("title", {}, `${line.rows.stream}: rows ${line.rows.way} a second`);
    const element = svg("g", { class: "rate", hidden: true }, title, box, text);
    const show = (number) => {
      element.toggleAttribute("hidden", number === null);
      if (number === null) return;
      setText(text, rate(number));
      element.classList.toggle("none", number === 0);
      const width = text.textContent.length * LETTER + 4;
      box.setAttribute("width", width);
      box.setAttribute("x", line.x - width / 2);
    };
    this.rowTexts.push({ ...line.rows, show });
    return element;
  }

  card(card) {
    const x = card.x + PAD;
    let y = card.y + 18 + (card.kind === "table" ? LID : 0);
    const texts = [svg("text", { x, y, class: "soft" }, card.tag)];
    if (card.key) texts.push(svg("text", { x: card.x + card.width - PAD, y, class: "soft end" }, card.key));
    for (const [i, line] of card.lines.entries()) {
      y += LINE;
      texts.push(svg("text", { x, y, class: i === 0 ? "name" : "soft" }, line));
    }
    if (card.lag !== null) {
      y += LINE;
      const text = svg("text", { x, y, class: "lag" });
      this.lagTexts.set(card.lag, text);
      texts.push(text);
    }
    if (card.rows !== null) {
      const text = svg("text", { x, y: y + LINE, class: "lag" });
      const show = (number) => setText(text, number === null ? "" : `${rate(number)} ${card.rows.way}`);
      this.rowTexts.push({ ...card.rows, show });
      texts.push(text);
    }
    return svg("g", { class: `card ${card.kind}` }, svg("title", {}, card.title), shape(card), texts);
  }
}

/** The rows a second of a stream. One that a report does not name has none, unless it names as many as it may. */
function perSecond(rates, stream, most) {
  if (Object.hasOwn(rates, stream)) return rates[stream];
  return Object.keys(rates).length < most ? 0 : null;
}

/** Streams are pills, tables cylinders, steps boxes. */
function shape({ kind, x, y, width, height }) {
  if (kind !== "table") return svg("rect", { x, y, width, height, rx: kind === "stream" ? 22 : 5 });
  const [top, bottom, right] = [y + LID, y + height - LID, x + width];
  const arc = `A${width / 2} ${LID} 0 0`;
  const body = `M${x} ${top}${arc} 1 ${right} ${top}V${bottom}${arc} 1 ${x} ${bottom}Z`;
  return svg("path", { d: `${body}M${x} ${top}${arc} 0 ${right} ${top}` });
}

function drawLine(line) {
  const css = line.kind === "dead letters" ? "line dead" : "line";
  const tip = svg("path", { d: line.tip, class: "tip" });
  return svg("g", { class: css }, svg("title", {}, line.title), svg("path", { d: line.path }), tip);
}

function chip(line) {
  const width = line.partitions.length * LETTER + 12;
  const title = svg("title", {}, `${line.title}: partitions ${line.partitions}`);
  const box = svg("rect", { x: line.x - width / 2, y: line.y - 27, width, height: LINE, rx: 8 });
  return svg("g", { class: "chip" }, title, box, svg("text", { x: line.x, y: line.y - 15 }, line.partitions));
}

// What is shown, by the part of the address behind #; asks every two seconds, and says when what is shown is old.

import { AppPage } from "./app.js";
import { age, el, setText, tick } from "./dom.js";
import { ListPage } from "./list.js";

const EVERY = 2000;
const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const fresh = document.getElementById("fresh");
let page = null;
let shown = "";
let seen = null;
let timer = null;
let round = 0;
const tags = new Map();

/** Ask for an address below api/: its JSON, null if it is as before, or an error with what to do. */
export async function ask(path) {
  const headers = tags.has(path) ? { "If-None-Match": tags.get(path) } : {};
  let answer;
  try {
    answer = await fetch(`api/${path}`, { headers, cache: "no-store" });
  } catch {
    throw new Error("holdfast ui does not answer: start it, or the port-forward to it, again, and open the address that it prints");
  }
  if (answer.status === 304) return null;
  if (!answer.headers.get("Content-Type")?.startsWith("application/json")) {
    throw new Error("holdfast ui was started again: open the address that it prints");
  }
  const tree = await answer.json();
  setText(document.getElementById("where"), `${tree.where} · ${tree.namespaces.join(", ") || "all namespaces"}`);
  if (tree.error) throw new Error(tree.message);
  tags.set(path, answer.headers.get("ETag"));
  return tree;
}

function route() {
  const words = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [kind, namespace, name] = words;
  const next = kind === "apps" && name ? `apps/${namespace}/${name}` : "";
  if (page === null || next !== shown) {
    shown = next;
    tags.clear();
    page = next ? new AppPage(namespace, name, ask) : new ListPage(ask);
    main.replaceChildren(page.element);
    document.title = next ? `${name} · Holdfast` : "Holdfast";
    seen = null;
    say(null);
    window.scrollTo(0, 0);
  }
  look();
}

async function look() {
  clearTimeout(timer);
  const mine = ++round;
  const current = page;
  try {
    await current.look();
    if (mine !== round) return;
    seen = Date.now();
    say(null);
  } catch (error) {
    if (mine !== round) return;
    say(error.message);
  }
  tellAge();
  if (!document.hidden) timer = setTimeout(look, EVERY);
}

function say(message) {
  trouble.hidden = message === null;
  const was = seen === null ? "" : ` What follows is ${age(seen, Date.now())} old.`;
  const sentence = /[.?]$/.test(message) ? message : `${message}.`;
  const text = message === null ? "" : `${sentence}${was} Trying again every 2 s.`;
  setText(trouble, text);
  main.classList.toggle("old", message !== null && seen !== null);
}

function tellAge() {
  const current = seen !== null && trouble.hidden;
  setText(fresh, current ? "● up to date" : seen === null && trouble.hidden ? "○ loading" : "▲ not up to date");
  fresh.className = current ? "good" : "bad";
}

addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => document.hidden || look());
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    const filter = document.querySelector("input[type=search]");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  } else if (event.key === "Escape" && !typing && shown) location.hash = "#/";
});
setInterval(tick, 1000);
tellAge();
route();

// The site's behavior: search, menu, light and dark. No dependencies.
"use strict";

const root = document.documentElement;
const base = root.dataset.root;

// Light and dark: what the system says, until the reader says otherwise.
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch {}
});

const menu = document.getElementById("menu");
function showMenu(on) {
  root.classList.toggle("menu", on);
  menu.setAttribute("aria-expanded", on);
}
menu.addEventListener("click", () => showMenu(!root.classList.contains("menu")));

// A long menu shows the page that is open.
const current = document.querySelector("nav a[aria-current]");
if (current) {
  const nav = document.getElementById("nav");
  nav.scrollTop = Math.max(0, current.offsetTop - nav.offsetTop - nav.clientHeight / 2);
}

if (navigator.clipboard) {
  for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
}

// Search. The index is a script, which pages opened from a disk may load too; it
// comes when the reader first turns to the search field.
const input = document.getElementById("search");
const found = document.getElementById("found");
let index = null, selected = -1;

function siteIndex(entries) {
  index = entries.map(e => ({ ...e, page: e.p.toLowerCase(), heading: (e.h || "").toLowerCase(), text: e.t.toLowerCase() }));
  search();
}

function load() {
  if (document.getElementById("index")) return;
  const s = document.createElement("script");
  s.id = "index";
  s.src = base + "assets/search.js";
  document.head.append(s);
}

// score says how well a text matches a word: 0 not at all, 3 as a word, 2 as the
// beginning of one, 1 inside one.
function score(text, word) {
  let best = 0;
  for (let at = text.indexOf(word); at >= 0 && best < 3; at = text.indexOf(word, at + 1)) {
    const begins = at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1]);
    const ends = !/[\p{L}\p{N}]/u.test(text[at + word.length] || " ");
    best = Math.max(best, begins ? (ends ? 3 : 2) : 1);
  }
  return best;
}

// What few readers look for comes after the guide and the examples.
const late = /^(bench|CHANGELOG|CONTRIBUTING|docs\/design)/;

// find returns the entries that have all words, the best first.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(w => w);
  if (!words.length) return [];
  const hits = [];
  index.forEach((e, i) => {
    let sum = 0;
    for (const w of words) {
      const s = 9 * score(e.page, w) * (e.h ? .5 : 1) + 6 * score(e.heading, w) + score(e.text, w);
      if (!s) return;
      sum += s;
    }
    hits.push({ e, sum: late.test(e.a) ? sum / 2 : sum, i });
  });
  return hits.sort((a, b) => b.sum - a.sum || a.i - b.i).slice(0, 15).map(h => h.e);
}

// marked adds a text to an element, with the words marked.
function marked(element, text, words) {
  const low = text.toLowerCase();
  let done = 0;
  while (done < text.length) {
    let at = -1, word = "";
    for (const w of words) {
      const i = low.indexOf(w, done);
      if (i >= 0 && (at < 0 || i < at)) [at, word] = [i, w];
    }
    if (at < 0) break;
    element.append(text.slice(done, at));
    const m = document.createElement("mark");
    m.textContent = text.slice(at, at + word.length);
    element.append(m);
    done = at + word.length;
  }
  element.append(text.slice(done));
}

function excerpt(e, words) {
  const places = words.map(w => e.text.indexOf(w)).filter(i => i >= 0);
  let start = places.length ? Math.max(0, Math.min(...places) - 60) : 0;
  if (start > 0) start = e.t.indexOf(" ", start) + 1; // a whole word
  return (start > 0 ? "… " : "") + e.t.slice(start, start + 170) + (start + 170 < e.t.length ? " …" : "");
}

function search() {
  const query = input.value.trim();
  found.hidden = !query || !index;
  input.setAttribute("aria-expanded", !found.hidden);
  found.replaceChildren();
  selected = -1;
  if (found.hidden) return;
  const words = query.toLowerCase().split(/\s+/);
  const entries = find(query);
  for (const e of entries) {
    const a = document.createElement("a");
    a.href = base + e.a;
    a.setAttribute("role", "option");
    const title = document.createElement("b");
    marked(title, e.h ? e.p + " › " + e.h : e.p, words);
    const text = document.createElement("span");
    marked(text, excerpt(e, words), words);
    a.append(title, text);
    a.addEventListener("click", close);
    found.append(a);
  }
  if (!entries.length) {
    const p = document.createElement("p");
    p.textContent = "Nothing found.";
    found.append(p);
  }
}

function close() {
  found.hidden = true;
  input.setAttribute("aria-expanded", false);
}

function select(i) {
  const all = found.querySelectorAll("a");
  if (!all.length) return;
  selected = (i + all.length) % all.length;
  all.forEach((a, j) => a.setAttribute("aria-selected", j === selected));
  all[selected].scrollIntoView({ block: "nearest" });
}

input.addEventListener("focus", () => { load(); if (index) search(); });
input.addEventListener("input", () => { load(); if (index) search(); });
input.addEventListener("keydown", e => {
  if (e.key === "ArrowDown") { select(selected + 1); e.preventDefault(); }
  if (e.key === "ArrowUp") { select(selected - 1); e.preventDefault(); }
  if (e.key === "Enter") (found.querySelectorAll("a")[Math.max(0, selected)] || input).click();
  if (e.key === "Escape") { close(); input.blur(); }
});
document.addEventListener("keydown", e => {
  if (e.key === "/" && document.activeElement !== input && !e.ctrlKey && !e.metaKey && !e.altKey) { input.focus(); e.preventDefault(); }
  if (e.key === "Escape") showMenu(false);
});
document.addEventListener("click", e => { if (!e.target.closest(".search")) close(); });

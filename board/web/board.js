// The live page. Messages are described in stream.go; axes and ticks follow axis.go.

import { Surface, color, forgetColors, make, niceStep } from "./surface.js";
import { Strip } from "./timeline.js";

const PALETTE = 8;
const DASHES = [[], [7, 4], [2, 3], [8, 3, 2, 3]];
const FEW_POINTS = 30;
const MANY_PANELS = 6;
const element = id => document.getElementById(id);

// ---- Numbers ----

function show(v) {
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  if (Number.isInteger(v) && Math.abs(v) < 1e6) return String(v);
  return String(Number(v.toPrecision(4)));
}

// Axis maps values to a share of its length.
class Axis {
  constructor(log, limits, lo, hi, margin) {
    this.log = log;
    if (limits && (limits[0] || limits[1]) && (!log || limits[0] > 0)) {
      [this.lo, this.hi] = limits;
    } else if (log) {
      if (lo > hi) [lo, hi] = [0.1, 1];
      if (lo === hi) [lo, hi] = [lo / 1.5, hi * 1.5];
      const factor = Math.exp(margin * (Math.log(hi) - Math.log(lo)));
      [this.lo, this.hi] = [Math.max(lo / factor, Number.MIN_VALUE), Math.min(hi * factor, Number.MAX_VALUE)];
    } else {
      if (lo > hi) [lo, hi] = [0, 1];
      if (lo === hi) {
        const half = lo === 0 ? 1 : Math.max(Math.abs(lo) * 0.1, 1e-300);
        [this.lo, this.hi] = [lo - half, hi + half];
      } else {
        const pad = (hi - lo) * margin;
        [this.lo, this.hi] = [lo >= 0 && lo < (hi - lo) * 0.06 ? 0 : lo - pad, hi + pad];
      }
    }
  }
  at(v) {
    if (this.log) return v > 0 ? (Math.log(v) - Math.log(this.lo)) / (Math.log(this.hi) - Math.log(this.lo)) : NaN;
    return (v - this.lo) / (this.hi - this.lo);
  }
  from(share) {
    if (this.log) return Math.exp(Math.log(this.lo) + share * (Math.log(this.hi) - Math.log(this.lo)));
    return this.lo + share * (this.hi - this.lo);
  }
  ticks(n) {
    if (this.log) {
      const ticks = this.logTicks(n);
      if (ticks.length > 1) return ticks;
    }
    const step = niceStep(0.7 * (this.hi - this.lo) / Math.max(n, 1));
    const ticks = [];
    if (!(step > 0) || !Number.isFinite(step)) return ticks;
    const biggest = Math.max(Math.abs(this.lo), Math.abs(this.hi));
    for (let k = Math.ceil(this.lo / step - 1e-9); k * step <= this.hi + step * 1e-9 && ticks.length <= 2 * n + 2; k++) {
      ticks.push([k * step, tickLabel(k * step, step, biggest)]);
    }
    return ticks;
  }
  logTicks(n) {
    const decades = Math.log10(this.hi) - Math.log10(this.lo);
    const every = Math.max(1, Math.ceil(decades / Math.max(n, 1)));
    const ticks = [];
    for (let d = Math.floor(Math.log10(this.lo)); d <= Math.ceil(Math.log10(this.hi)); d++) {
      if (d % every !== 0) continue;
      for (const m of decades < 2.5 ? [1, 2, 5] : [1]) {
        const v = Number(`${m}e${d}`);
        if (v >= this.lo * (1 - 1e-9) && v <= this.hi * (1 + 1e-9) && Number.isFinite(v)) {
          ticks.push([v, v >= 0.9e-3 && v < 0.9e4 ? String(v) : `${m}e${d}`]);
        }
      }
    }
    return ticks;
  }
}

function tickLabel(v, step, biggest) {
  if (v === 0) return "0";
  if (biggest >= 1e15 || biggest < 1e-3) {
    const digits = Math.floor(Math.log10(Math.abs(v)) + 1e-9) - Math.floor(Math.log10(step) + 1e-9);
    return v.toExponential(Math.min(15, Math.max(0, digits))).replace("e+", "e");
  }
  let suffix = "";
  for (const [size, name, from] of [[1e12, "T", 1e12], [1e9, "G", 1e9], [1e6, "M", 1e6], [1e3, "k", 1e4]]) {
    if (biggest >= from) {
      [v, step, suffix] = [v / size, step / size, name];
      break;
    }
  }
  return v.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9))) + suffix;
}

// ---- Series ----

// A Series holds the buckets as the server has them, and so in bounded memory.
class Series {
  constructor() { this.buckets = []; this.last = [NaN, NaN]; this.count = 0; this.flat = null; }
  update(news) {
    this.buckets.length = news.from;
    for (const b of news.buckets) this.buckets.push(b.map(Number)); // Number: values that JSON has none for are strings
    this.last = news.last.map(Number);
    this.count = news.count;
    this.flat = null;
  }
  // points is x, y, x, y… in the order of arrival.
  points() {
    if (!this.flat) {
      this.flat = this.buckets.flat();
      const n = this.flat.length;
      if (!n || this.flat[n - 2] !== this.last[0] || this.flat[n - 1] !== this.last[1]) this.flat.push(...this.last);
    }
    return this.flat;
  }
}

// keyOf is the background that stands for a curve in legends.
function keyOf(index) {
  const hue = `var(--c${index % PALETTE})`;
  const [on, off] = DASHES[Math.floor(index / PALETTE) % DASHES.length];
  return on ? `repeating-linear-gradient(90deg, ${hue} 0 ${on * 0.6}px, transparent ${on * 0.6}px ${(on + off) * 0.6}px)` : hue;
}

const drawable = (p, i) => Number.isFinite(p[i]) && Number.isFinite(p[i + 1]);

// ---- Panels ----

class Panel extends Surface {
  constructor() {
    super("panel", "plot");
    this.hidden = new Set(); // labels
    this.entries = new Map(); // legend, by id
    this.log = { x: null, y: null }; // the reader's choice, if there is one
    this.top.append(this.logSwitch("x", "log x"), this.logSwitch("y", "log y"));
    // A canvas that nobody sees takes neither time nor memory, however many there are.
    this.visible = false;
    new IntersectionObserver(seen => {
      this.visible = seen[seen.length - 1].isIntersecting;
      this.redraw();
    }, { rootMargin: "300px" }).observe(this.plot);
  }

  logSwitch(axis, text) {
    const button = make("button", "switch", text);
    button.dataset.axis = axis;
    button.onclick = () => {
      this.log[axis] = !this.isLog(axis);
      if (axis === "x") this.zoom = null;
      this.redraw();
    };
    return this[axis + "Switch"] = button;
  }

  isLog(axis) { return this.log[axis] ?? this.spec[axis + "log"]; }

  value(x) {
    if (!this.area) return undefined;
    const { x0, x1 } = this.area;
    return this.xAxis.from(Math.min(1, Math.max(0, (x - x0) / (x1 - x0))));
  }

  press(key) {
    if (!this.area) return false;
    const { x0, x1, y0 } = this.area;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (move) {
      const x = (this.mouse ? this.mouse.x : (x0 + x1) / 2) + move * (x1 - x0) / 60;
      this.mouse = { x: Math.min(x1, Math.max(x0, x)), y: y0 + 20 };
    } else if (key === "Escape") {
      this.mouse = null;
      this.zoom = null;
    } else return false;
    return true;
  }

  update(spec) {
    this.spec = spec;
    this.title.textContent = spec.title;
    this.root.dataset.panel = spec.name;
    for (const [id, entry] of this.entries) {
      if (!spec.series.some(s => s.id === id && s.label === entry.label)) {
        entry.item.remove();
        this.entries.delete(id);
      }
    }
    for (const s of spec.series) {
      if (this.entries.has(s.id)) continue;
      const item = make("li"), button = make("button"), key = make("span", "key"), value = make("span", "value");
      key.style.background = keyOf(s.color);
      button.append(key, make("span", "name", s.label), value);
      button.title = `${s.label}: click to hide or show, double-click for this one only`;
      button.onclick = () => this.toggle(s.label);
      button.ondblclick = () => this.only(s.label);
      item.append(button);
      this.legend.append(item);
      this.entries.set(s.id, { item, button, value, label: s.label });
    }
    this.redraw();
  }

  toggle(label) {
    if (!this.hidden.delete(label)) this.hidden.add(label);
    this.redraw();
  }

  only(label) {
    this.hidden = new Set(this.spec.series.map(s => s.label).filter(l => l !== label));
    this.redraw();
  }

  draw(always) {
    if (!this.spec) return;
    if (!this.visible && !always) {
      this.drawWords();
      return;
    }
    const { g, box } = this.begin(60) ?? {};
    if (!g) return;

    const shown = this.spec.series.filter(s => !this.hidden.has(s.label));
    const lines = shown.map(s => ({ ...s, points: series.get(s.id)?.points() ?? [] }));
    this.fit(lines);
    const yTicks = this.yAxis.ticks(Math.max(2, Math.round(box.height / 60)));
    const label = this.spec.ylabel ? 20 : 0;
    const x0 = Math.ceil(Math.max(...yTicks.map(t => g.measureText(t[1]).width), 10)) + 14 + label;
    const area = this.area = { x0, y0: 8, x1: box.width - 14, y1: box.height - (this.spec.xlabel ? 44 : 26) };
    const X = v => area.x0 + this.xAxis.at(v) * (area.x1 - area.x0);
    const Y = v => area.y1 - this.yAxis.at(v) * (area.y1 - area.y0);

    this.drawAxes(g, area, X, Y, yTicks, box);
    for (const line of lines) this.drawLine(g, line, X, Y);
    if (!lines.some(l => l.points.length)) {
      g.fillStyle = color("--muted");
      g.textAlign = "center";
      g.fillText(this.spec.series.length ? "All curves are hidden" : "Waiting for the first point…", (area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2);
    }
    this.drawHover(g, lines, X, Y, box);
    this.drawWords();
  }

  // fit makes the axes from what is shown.
  fit(lines) {
    const [xlog, ylog] = [this.isLog("x"), this.isLog("y")];
    const xlim = this.zoom ?? (this.spec.xlim[0] || this.spec.xlim[1] ? this.spec.xlim : null);
    let [xlo, xhi, ylo, yhi] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { points: p } of lines) {
      for (let i = 0; i < p.length; i += 2) {
        const [x, y] = [p[i], p[i + 1]];
        if (!drawable(p, i) || (xlog && x <= 0) || (ylog && y <= 0) || (xlim && (x < xlim[0] || x > xlim[1]))) continue;
        if (x < xlo) xlo = x;
        if (x > xhi) xhi = x;
        if (y < ylo) ylo = y;
        if (y > yhi) yhi = y;
      }
    }
    this.xAxis = new Axis(xlog, xlim, xlo, xhi, 0);
    if (this.spec.yzero && !ylog && ylo > 0 && ylo <= yhi) ylo = 0;
    this.yAxis = new Axis(ylog, this.spec.ylim, ylo, yhi, 0.05);
  }

  drawAxes(g, area, X, Y, yTicks, box) {
    g.lineWidth = 1;
    g.fillStyle = color("--muted");
    g.strokeStyle = color("--grid");
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const [v, text] of yTicks) {
      const y = Math.round(Y(v)) + 0.5;
      g.beginPath();
      g.moveTo(area.x0, y);
      g.lineTo(area.x1, y);
      g.stroke();
      g.fillText(text, area.x0 - 8, y);
    }
    g.strokeStyle = color("--frame");
    g.textAlign = "center";
    g.textBaseline = "alphabetic";
    g.beginPath();
    g.moveTo(area.x0, area.y1 + 0.5);
    g.lineTo(area.x1, area.y1 + 0.5);
    for (const [v, text] of this.xAxis.ticks(Math.max(2, Math.round(box.width / 90)))) {
      const x = Math.round(X(v)) + 0.5;
      g.moveTo(x, area.y1);
      g.lineTo(x, area.y1 + 5);
      g.fillText(text, Math.min(x, box.width - g.measureText(text).width / 2 - 1), area.y1 + 19);
    }
    g.stroke();
    g.fillStyle = color("--ink");
    if (this.spec.xlabel) g.fillText(this.spec.xlabel, (area.x0 + area.x1) / 2, box.height - 5, area.x1 - area.x0);
    if (this.spec.ylabel) {
      g.save();
      g.translate(12, (area.y0 + area.y1) / 2);
      g.rotate(-Math.PI / 2);
      g.fillText(this.spec.ylabel, 0, 0, area.y1 - area.y0);
      g.restore();
    }
  }

  drawLine(g, line, X, Y) {
    const p = line.points, { x0, x1, y0, y1 } = this.area;
    const path = new Path2D(), dots = new Path2D();
    const few = p.length / 2 < FEW_POINTS;
    let pen = false; // down
    for (let i = 0; i < p.length; i += 2) {
      const x = X(p[i]), y = Y(p[i + 1]);
      if (!Number.isFinite(x) || !Number.isFinite(y)) {
        pen = false;
        continue;
      }
      const next = i + 2 < p.length && Number.isFinite(X(p[i + 2])) && Number.isFinite(Y(p[i + 3]));
      const inside = x >= x0 - 0.5 && x <= x1 + 0.5 && y >= y0 - 0.5 && y <= y1 + 0.5;
      if (inside && (few || (!pen && !next))) {
        dots.moveTo(x + 2.6, y);
        dots.arc(x, y, 2.6, 0, 7);
      }
      if (pen) path.lineTo(x, y);
      else path.moveTo(x, y);
      pen = true;
    }
    g.strokeStyle = g.fillStyle = color(`--c${line.color % PALETTE}`);
    g.lineWidth = 1.8;
    g.lineJoin = g.lineCap = "round";
    g.save();
    g.beginPath();
    g.rect(x0 - 1, y0 - 1, x1 - x0 + 2, y1 - y0 + 2);
    g.clip();
    g.setLineDash(DASHES[Math.floor(line.color / PALETTE) % DASHES.length]);
    g.stroke(path);
    g.restore();
    g.fill(dots);
  }

  // drawHover shows, where the pointer is, the nearest point of each curve.
  drawHover(g, lines, X, Y, box) {
    const { x0, x1, y0, y1 } = this.area;
    this.tip.hidden = true;
    if (this.drag && this.mouse) {
      g.fillStyle = color("--accent");
      g.globalAlpha = 0.12;
      const [a, b] = [Math.max(x0, Math.min(this.drag.x, this.mouse.x)), Math.min(x1, Math.max(this.drag.x, this.mouse.x))];
      g.fillRect(a, y0, b - a, y1 - y0);
      g.globalAlpha = 1;
      return;
    }
    if (!this.mouse || this.mouse.x < x0 - 4 || this.mouse.x > x1 + 4) return;
    const found = [];
    for (const line of lines) {
      const p = line.points;
      let best = -1, distance = Infinity;
      for (let i = 0; i < p.length; i += 2) {
        const px = X(p[i]), d = Math.abs(px - this.mouse.x);
        if (d < distance && px >= x0 - 1 && px <= x1 + 1 && Number.isFinite(Y(p[i + 1]))) [best, distance] = [i, d];
      }
      if (best >= 0) found.push({ line, distance, x: p[best], y: p[best + 1] });
    }
    if (!found.length) return;
    const nearest = found.reduce((a, b) => b.distance < a.distance ? b : a);
    const at = X(nearest.x);
    g.strokeStyle = color("--frame");
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(Math.round(at) + 0.5, y0);
    g.lineTo(Math.round(at) + 0.5, y1);
    g.stroke();
    this.tip.replaceChildren();
    const head = make("div");
    head.append(make("b", "", `${this.spec.xlabel || "x"} ${show(nearest.x)}`));
    const rows = make("div", "rows");
    this.tip.append(head, rows);
    found.sort((a, b) => b.y - a.y);
    for (const f of found) {
      const hue = `--c${f.line.color % PALETTE}`;
      if (Y(f.y) >= y0 - 4 && Y(f.y) <= y1 + 4) {
        g.beginPath();
        g.arc(X(f.x), Y(f.y), 4, 0, 7);
        g.fillStyle = color(hue);
        g.fill();
        g.lineWidth = 1.5;
        g.strokeStyle = color("--card");
        g.stroke();
      }
      const key = make("span", "key");
      key.style.background = keyOf(f.line.color);
      rows.append(key, make("span", "name", f.line.label), make("b", "", show(f.y)), make("span", "at", f.x === nearest.x ? "" : `at ${show(f.x)}`));
    }
    this.tip.hidden = false;
    const size = this.tip.getBoundingClientRect();
    const left = at + 14 + size.width > box.width ? at - 14 - size.width : at + 14;
    const top = Math.min(Math.max(0, this.mouse.y - size.height / 2), box.height - size.height);
    this.tip.style.transform = `translate(${Math.max(0, Math.round(left))}px, ${Math.round(top)}px)`;
  }

  // drawWords brings everything around the canvas up to date.
  drawWords() {
    const words = [];
    for (const [id, entry] of this.entries) {
      const s = series.get(id), last = s ? s.last[1] : NaN;
      entry.value.textContent = s ? show(last) : "";
      entry.value.classList.toggle("bad", s !== undefined && !Number.isFinite(last));
      entry.button.setAttribute("aria-pressed", String(!this.hidden.has(entry.label)));
      entry.button.dataset.count = s ? s.count : 0;
      words.push(`${entry.label} ${entry.value.textContent}`);
    }
    for (const axis of ["x", "y"]) this[axis + "Switch"].setAttribute("aria-pressed", String(this.isLog(axis)));
    this.reset.hidden = !this.zoom;
    this.canvas.setAttribute("aria-label", `Curves${this.spec.title ? " of " + this.spec.title : ""}: ${words.join(", ")}`);
  }
}

// ---- The page ----

const series = new Map(); // by id
const panels = new Map(); // by name
let fresh = true; // the next message is the first of a connection, which tells everything
let title = "Locus board";
let share = "";

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  forgetColors();
  for (const p of panels.values()) p.redraw();
  strip?.redraw();
});
addEventListener("beforeprint", () => { for (const p of panels.values()) p.draw(true); });

function setTitle() { document.title = (share ? `${share} · ` : "") + title; }

function onPanels(specs) {
  if (fresh) {
    series.clear();
    fresh = false;
    element("progress").hidden = true;
    onTimeline({});
    share = "";
  }
  const main = element("panels"), names = new Set(specs.map(s => s.name));
  for (const [name, p] of panels) {
    if (!names.has(name)) {
      p.root.remove();
      panels.delete(name);
    }
  }
  specs.forEach((spec, i) => {
    if (!panels.has(spec.name)) panels.set(spec.name, new Panel());
    const p = panels.get(spec.name);
    if (main.children[i] !== p.root) main.insertBefore(p.root, main.children[i] ?? null);
    p.update(spec);
  });
  main.classList.toggle("single", specs.length === 1);
  main.classList.toggle("several", specs.length > 2 && specs.length <= MANY_PANELS);
  main.classList.toggle("many", specs.length > MANY_PANELS);
  title = specs[0].title || "Locus board";
  element("title").textContent = "Locus board"; // a title of its own comes in a message of its own
  element("panels").dataset.ready = "true";
  setTitle();
}

function onTitle(text) {
  if (text) title = text;
  element("title").textContent = text || "Locus board";
  setTitle();
}

let strip = null; // the timeline, once there is one

function onTimeline(data) {
  if (!data.spans) {
    strip?.root.remove();
    strip = null;
    return;
  }
  strip ??= new Strip();
  if (!strip.root.isConnected) element("panels").after(strip.root);
  strip.update(data);
}

function onPoints(all) {
  for (const news of all) {
    if (!series.has(news.id)) series.set(news.id, new Series());
    series.get(news.id).update(news);
  }
  const ids = new Set(all.map(n => n.id));
  for (const p of panels.values()) {
    if (p.spec.series.some(s => ids.has(s.id))) p.redraw();
  }
}

function onProgress(state) {
  element("progress").hidden = false;
  const bar = element("done").parentElement;
  bar.hidden = state.fraction < 0;
  const percent = Math.floor(state.fraction * 100);
  element("done").style.width = `${state.fraction * 100}%`;
  bar.setAttribute("aria-valuenow", percent);
  element("status").replaceChildren(...state.text.map(t => make("span", "", t.trim())));
  share = state.fraction < 0 || state.done ? "" : `${percent}%`;
  setTitle();
}

function setLink(state, text) {
  element("link").dataset.state = state;
  element("link").textContent = text;
}

function connect() {
  const source = new EventSource("events");
  let ended = false;
  const on = (name, f) => source.addEventListener(name, e => f(JSON.parse(e.data)));
  on("panels", onPanels);
  on("title", onTitle);
  on("timeline", onTimeline);
  on("points", onPoints);
  on("progress", onProgress);
  on("end", () => { ended = true; setLink("ended", "run ended"); });
  source.onopen = () => { fresh = true; ended = false; setLink("live", "live"); };
  source.onerror = () => {
    setLink(ended ? "ended" : "waiting", ended ? "run ended" : "connection lost, trying again");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000); // the browser gave up: we do not
  };
}
connect();

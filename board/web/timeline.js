// The timeline of a step, as timeline.go describes it: a row per device, spans that
// overlap above each other, zoom by dragging.

import { Surface, color, make, niceStep } from "./surface.js";

const TALL = 22, GAP = 10, MOST = 6;
const HUES = ["--muted", "--c0", "--c2", "--c1", "--c4", "--c6", "--c5"]; // by kind

// duration writes microseconds for people.
export function duration(us) {
  const short = v => String(Number(v.toPrecision(3)));
  if (us === 0) return "0";
  if (us < 1) return `${short(us * 1e3)} ns`;
  if (us < 1e3) return `${short(us)} µs`;
  if (us < 1e6) return `${short(us / 1e3)} ms`;
  return `${short(us / 1e6)} s`;
}

export class Strip extends Surface {
  constructor() {
    super("panel timeline", "strip");
    this.root.dataset.panel = "timeline";
    this.legend.classList.add("kinds");
    const link = make("a", "button", "SVG");
    link.href = "timeline.svg";
    link.download = "timeline.svg";
    this.top.append(link);
  }

  press(key) {
    const [lo, hi] = this.range(), span = hi - lo;
    const moves = { ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.2, -0.2], "-": [-0.33, 0.33] };
    if (key === "Escape") this.zoom = null;
    else if (moves[key]) this.zoom = [Math.max(0, lo + span * moves[key][0]), Math.min(this.end, hi + span * moves[key][1])];
    else return false;
    return true;
  }

  update(data) {
    this.data = data;
    this.zoom = null;
    this.title.textContent = data.title || "Timeline";
    this.end = 0;
    const ends = data.rows.map(() => []); // by row and level
    this.spans = data.spans.map(([row, kind, start, time, name, detail]) => {
      const levels = ends[row];
      let level = 0;
      while (level < levels.length && levels[level] > start && level < MOST - 1) level++;
      levels[level] = Math.max(levels[level] ?? 0, start + time);
      this.end = Math.max(this.end, start + time);
      return { row, kind, start, time, level, name: data.texts[name], detail: data.texts[detail] };
    });
    this.tops = [];
    let y = 4;
    for (const levels of ends) {
      this.tops.push(y);
      y += Math.max(1, levels.length) * TALL + GAP;
    }
    this.bottom = y;
    this.plot.style.height = `${y + 26}px`;
    const seen = new Set(this.spans.map(s => s.kind));
    this.legend.replaceChildren(...data.kinds.map((name, k) => [name, k]).filter(([, k]) => seen.has(k)).map(([name, k]) => {
      const item = make("li"), key = make("span", "key square");
      key.style.background = `var(${HUES[k]})`;
      item.append(key, make("span", "", name));
      return item;
    }));
    if (data.left) this.legend.append(make("li", "", `${data.left} more spans are not shown`));
    const busy = data.rows.map((name, row) => `${name} ${this.spans.filter(s => s.row === row).length} spans`);
    this.canvas.setAttribute("aria-label", `Timeline of ${duration(this.end)}: ${busy.join(", ")}`);
    this.root.dataset.spans = this.spans.length;
    this.redraw();
  }

  range() { return this.zoom ?? [0, this.end || 1]; }
  value(x) {
    const [lo, hi] = this.range();
    return Math.min(hi, Math.max(lo, lo + (x - this.x0) / (this.x1 - this.x0) * (hi - lo)));
  }

  draw() {
    if (!this.data) return;
    const { g, box } = this.begin(0) ?? {};
    if (!g) return;
    g.textBaseline = "middle";
    const names = Math.max(...this.data.rows.map(n => g.measureText(n).width));
    this.x0 = Math.min(Math.ceil(names) + 12, Math.round(box.width * 0.3));
    this.x1 = box.width - 8;
    const [lo, hi] = this.range();
    const X = t => this.x0 + (t - lo) / (hi - lo) * (this.x1 - this.x0);
    const step = niceStep((hi - lo) / Math.max(2, (this.x1 - this.x0) / 110));
    g.lineWidth = 1;
    for (let k = Math.ceil(lo / step); k * step <= hi; k++) {
      const x = Math.round(X(k * step)) + 0.5;
      g.strokeStyle = color("--grid");
      g.beginPath();
      g.moveTo(x, 0);
      g.lineTo(x, this.bottom);
      g.stroke();
      g.fillStyle = color("--muted");
      const text = duration(k * step), half = g.measureText(text).width / 2;
      g.textAlign = "center";
      g.fillText(text, Math.min(x, box.width - half - 1), this.bottom + 13);
    }
    g.textAlign = "left";
    this.data.rows.forEach((name, i) => {
      g.fillStyle = color("--ink");
      g.fillText(name, 0, this.tops[i] + TALL / 2, this.x0 - 8);
    });
    let found = null;
    const drawn = new Map(); // where the last span of a level ends: what is narrower than a pixel is not drawn again
    g.save();
    g.beginPath();
    g.rect(this.x0, 0, this.x1 - this.x0, this.bottom);
    g.clip();
    for (const s of this.spans) {
      if (s.start > hi || s.start + s.time < lo) continue;
      const x = X(s.start), end = Math.max(X(s.start + s.time), x + 0.7), y = this.tops[s.row] + s.level * TALL;
      if (this.mouse && this.mouse.x >= x - 1 && this.mouse.x <= end + 1 && this.mouse.y >= y && this.mouse.y < y + TALL) {
        if (!found || end - x < found.end - found.x) found = { s, x, end, y };
      }
      const key = s.row * MOST + s.level;
      if (end - (drawn.get(key) ?? -1) < 0.4) continue;
      drawn.set(key, end);
      g.fillStyle = color(HUES[s.kind] ?? "--muted");
      g.fillRect(x, y + 1, Math.max(end - x - 0.5, 0.5), TALL - 4);
      const left = Math.max(x, this.x0), right = Math.min(end, this.x1);
      if (right - left > 24 && g.measureText(s.name).width < right - left - 6) {
        g.fillStyle = color("--card");
        g.fillText(s.name, left + (right - left - g.measureText(s.name).width) / 2, y + TALL / 2 - 1);
      }
    }
    if (found) {
      g.strokeStyle = color("--ink");
      g.strokeRect(found.x - 0.5, found.y + 0.5, found.end - found.x + 0.5, TALL - 3);
    }
    if (this.drag && this.mouse) {
      g.fillStyle = color("--accent");
      g.globalAlpha = 0.15;
      g.fillRect(Math.min(this.drag.x, this.mouse.x), 0, Math.abs(this.drag.x - this.mouse.x), this.bottom);
    }
    g.restore();
    this.reset.hidden = !this.zoom;
    this.hover(found, box);
  }

  hover(found, box) {
    this.tip.hidden = !found || Boolean(this.drag);
    if (this.tip.hidden) return;
    const { s } = found;
    const head = make("div");
    head.append(make("b", "", s.name), make("span", "", `  ${duration(s.time)}`));
    this.tip.replaceChildren(head, ...s.detail.split("\n").filter(Boolean).map(l => make("div", "at", l)), make("div", "at", `from ${duration(s.start)} on`));
    const size = this.tip.getBoundingClientRect();
    const left = Math.min(Math.max(0, this.mouse.x + 14), box.width - size.width);
    const top = found.y + TALL + 4 + size.height > box.height + 60 ? Math.max(0, found.y - size.height - 4) : found.y + TALL + 4;
    this.tip.style.transform = `translate(${Math.max(0, Math.round(left))}px, ${Math.round(top)}px)`;
  }
}

// What the page's drawings share: elements, colors, and a canvas that is drawn again when
// something changes and zooms into what a drag over it marks.

export function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
}

const colors = new Map();

// color returns a variable of the style sheet; forgetColors makes it look again.
export function color(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}

export function forgetColors() { colors.clear(); }

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is not below raw.
export function niceStep(raw) {
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  for (const m of [1, 2, 5]) if (m * power >= raw * (1 - 1e-9)) return m * power;
  return 10 * power;
}

// Surface is a section with a title, a canvas and a legend. What extends it has draw();
// value(x), the place on its axis of a pixel of the canvas, or undefined; and press(key),
// which reports whether it has done something with a key.
export class Surface {
  constructor(className, plotClass) {
    this.zoom = null; // limits of x
    this.mouse = null; // where the pointer is, in pixels
    this.drag = null; // where a drag began

    this.root = make("section", className);
    this.top = make("div", "top");
    this.title = make("h2");
    this.reset = make("button", "", "Reset zoom");
    this.reset.hidden = true;
    this.reset.onclick = () => { this.zoom = null; this.redraw(); };
    this.top.append(this.title, this.reset);
    this.plot = make("div", plotClass);
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.plot.append(this.canvas, this.tip);
    this.legend = make("ul", "legend");
    this.root.append(this.top, this.plot, this.legend);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.plot);
  }

  listen() {
    const c = this.canvas;
    const at = e => {
      const r = c.getBoundingClientRect();
      return { x: e.clientX - r.left, y: e.clientY - r.top };
    };
    const leave = () => { this.mouse = null; this.redraw(); };
    c.onpointermove = e => { this.mouse = at(e); this.redraw(); };
    c.onpointerleave = leave;
    c.onblur = leave;
    c.onpointerdown = e => {
      if (e.button !== 0 || e.pointerType === "touch") return;
      this.drag = at(e);
      c.setPointerCapture(e.pointerId);
    };
    c.onpointerup = e => {
      const from = this.drag, to = at(e);
      this.drag = null;
      if (from && Math.abs(to.x - from.x) > 6) {
        const [lo, hi] = [this.value(Math.min(from.x, to.x)), this.value(Math.max(from.x, to.x))];
        if (hi > lo) this.zoom = [lo, hi];
      }
      this.redraw();
    };
    c.ondblclick = () => { this.zoom = null; this.redraw(); };
    c.onkeydown = e => {
      if (!this.press(e.key)) return;
      e.preventDefault();
      this.redraw();
    };
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  // begin fits the canvas to its place and empties it; nothing if there is no room to draw.
  begin(lowest) {
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 60 || box.height < lowest) return undefined;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    const g = this.canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, box.width, box.height);
    g.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return { g, box };
  }
}

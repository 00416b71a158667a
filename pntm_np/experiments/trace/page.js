"use strict";
// The page of a trace. Everything is computed from what was recorded when the page is opened; a step only looks it up.

const WRITTEN = 0.5; // of an address: a cell counts as written by a head that was on it with at least this weight
const dark = matchMedia("(prefers-color-scheme: dark)");
const $ = (selector, root = document) => root.querySelector(selector);
const make = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

async function unpacked({ data, dtype }) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  return dtype === "f4" ? new Float32Array(buffer) : dtype === "u2" ? new Uint16Array(buffer) : new Uint8Array(buffer);
}

// ---- what happened: addresses and memory by the recurrences

// a_t[i] = left a[i+1] + stay a[i] + right a[i-1], from the first cell on; the shift is the last thing a step does
function addressesByShifts(shifts, steps, heads, m) {
  const found = new Float32Array(steps * heads * m);
  for (let h = 0; h < heads; h++) {
    found[h * m] = 1;
    for (let t = 0; t + 1 < steps; t++) {
      const a = (t * heads + h) * m, b = ((t + 1) * heads + h) * m, s = (t * heads + h) * 3;
      for (let i = 0; i < m; i++)
        found[b + i] = shifts[s] * found[a + ((i + 1) % m)] + shifts[s + 1] * found[a + i] + shifts[s + 2] * found[a + ((i + m - 1) % m)];
    }
  }
  return found;
}

// M = (1 - w) M + w v: every write head has a share of each cell
function memoryBySharing(addresses, values, steps, heads, writers, m, n) {
  const M = new Float32Array(steps * m * n), size = n / writers;
  for (let t = 0; t < steps; t++)
    for (let i = 0; i < m; i++)
      for (let w = 0; w < writers; w++) {
        const a = addresses[(t * heads + w) * m + i];
        for (let k = w * size; k < (w + 1) * size; k++) {
          const before = t ? M[((t - 1) * m + i) * n + k] : 0;
          M[(t * m + i) * n + k] = (1 - a) * before + a * values[t * n + k];
        }
      }
  return M;
}

// M = M (1 - w_1 e_1) (1 - w_2 e_2) .. + w_1 d_1 + w_2 d_2 + ..: all write heads share all of a cell
function memoryByErasing(addresses, values, erase, steps, heads, writers, m, n, start) {
  const M = new Float32Array(steps * m * n);
  for (let t = 0; t < steps; t++)
    for (let i = 0; i < m; i++)
      for (let k = 0; k < n; k++) {
        let kept = t ? M[((t - 1) * m + i) * n + k] : start, added = 0;
        for (let w = 0; w < writers; w++) {
          const a = addresses[(t * heads + w) * m + i], at = (t * writers + w) * n + k;
          kept *= 1 - a * erase[at];
          added += a * values[at];
        }
        M[(t * m + i) * n + k] = kept + added;
      }
  return M;
}

async function prepare(run) {
  const arrays = {};
  for (const [name, packed] of Object.entries(run.arrays)) arrays[name] = await unpacked(packed);
  const steps = run.tokens.length, heads = run.heads.length, writers = run.heads.filter((h) => h.kind === "write").length;
  run.steps = steps;
  if (run.kind === "states") {
    run.state = arrays.states;
    return run;
  }
  const m = run.cells;
  if (run.kind === "pntm") run.addresses = addressesByShifts(arrays.shifts, steps, heads, m);
  else {
    const most = run.kind === "ntm" ? 65535 : 255;
    run.addresses = Float32Array.from(arrays.addresses, (x) => x / most);
  }
  if (run.kind === "pntm") run.memory = memoryBySharing(run.addresses, arrays.values, steps, heads, writers, m, run.numbers);
  if (run.kind === "ntm") run.memory = memoryByErasing(run.addresses, arrays.values, arrays.erase, steps, heads, writers, m, run.numbers, run.start);
  run.paths = run.heads.map((_, h) => {
    const path = new Int32Array(steps);
    for (let t = 0; t < steps; t++) {
      let best = 0, base = (t * heads + h) * m;
      for (let i = 1; i < m; i++) if (run.addresses[base + i] > run.addresses[base + best]) best = i;
      path[t] = best;
    }
    return path;
  });
  run.largest = run.memory ? run.memory.reduce((a, x) => Math.max(a, Math.abs(x)), 1e-9) : 1;
  return run;
}

const weight = (run, t, h, i) => run.addresses[(t * run.heads.length + h) * run.cells + i];

// the last step up to t at which one of these heads was on the cell with at least half of its weight
function lastWrite(run, t, i, writers) {
  for (let s = t; s >= 0; s--) {
    let by = -1;
    for (const w of writers) if (weight(run, s, w, i) >= WRITTEN && (by < 0 || weight(run, s, w, i) > weight(run, s, by, i))) by = w;
    if (by >= 0) return { step: s, head: by };
  }
  return null;
}

// the step up to t at which one of these heads had the most weight on the cell
function mostWritten(run, t, i, writers) {
  let best = { step: 0, head: writers[0] };
  for (let s = 0; s <= t; s++)
    for (const w of writers) if (weight(run, s, w, i) > weight(run, best.step, best.head, i)) best = { step: s, head: w };
  return best;
}

// ---- colours

const SCALES = { light: [[255, 255, 255], [66, 146, 198], [8, 48, 107]], dark: [[13, 17, 23], [38, 110, 190], [150, 205, 255]] };
function blue(x) { // 0 background, 1 the strongest
  const scale = SCALES[dark.matches ? "dark" : "light"], half = x < 0.5 ? 0 : 1, share = 2 * x - half;
  return scale[half].map((from, c) => from + share * (scale[half + 1][c] - from));
}
function diverging(x) { // -1 red, 0 background, 1 blue
  const a = Math.min(1, Math.abs(x));
  if (x >= 0) return blue(a);
  return dark.matches ? [13 + 242 * a, 17 + 137 * a, 23 + 64 * a] : [255 - 42 * a, 255 - 161 * a, 255 - 255 * a];
}
function paint(canvas, width, height, colour) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let y = 0, p = 0; y < height; y++)
    for (let x = 0; x < width; x++, p += 4) {
      const [r, g, b] = colour(x, y);
      image.data[p] = r; image.data[p + 1] = g; image.data[p + 2] = b; image.data[p + 3] = 255;
    }
  context.putImageData(image, 0, 0);
}

// ---- one machine

class Panel {
  constructor(run, root) {
    Object.assign(this, { run, root, head: run.chosen ?? 0, asked: null, time: 0 });
    root.append(make("h2", "", run.title));
    this.tokens = make("div", "tokens");
    this.tokens.setAttribute("role", "group");
    this.tokens.setAttribute("aria-label", "tokens by step");
    this.tokens.tabIndex = 0;
    run.tokens.forEach((token, t) => {
      const span = make("span", t === run.separator ? "separator" : "", token);
      if (t > run.separator && this.wrong(t - 1)) span.classList.add("wrong");
      span.onclick = () => go(t);
      this.tokens.append(span);
    });
    this.answer = make("p", "answer");
    this.said = make("p", "said");
    this.said.setAttribute("role", "status");
    root.append(this.tokens, make("p", "soft", "The answer so far:"), this.answer, this.said);
    if (run.heads.length) this.addHeads();
    else this.addStates();
  }

  wrong(t) {
    const right = this.run.expected?.[t - this.run.separator];
    return right !== undefined && right !== this.run.predicted[t];
  }

  addHeads() {
    const row = make("div", "row"), label = make("label", "", "Head "), groups = {};
    this.select = make("select");
    this.run.heads.forEach(({ kind, name }, h) => {
      if (!groups[kind]) {
        groups[kind] = make("optgroup");
        groups[kind].label = { write: "write heads", read: "read heads", attention: "attention" }[kind];
        this.select.append(groups[kind]);
      }
      const option = make("option", "", name);
      option.value = h;
      groups[kind].append(option);
    });
    this.select.value = this.head;
    this.select.onchange = () => choose(this.run.heads[+this.select.value].name, this);
    label.append(this.select);
    this.letters = make("span", "soft");
    row.append(label, this.letters);
    this.tape = make("div", "tape");
    this.tape.setAttribute("role", "img");
    this.root.append(row, this.tape);
    this.map = this.addMap("");
    this.drawMap();
  }

  addStates() {
    this.map = this.addMap("Every unit of the state (from top to bottom) over time; blue is positive, orange negative. Dotted: the separator.");
    this.drawStates();
  }

  drawStates() {
    const { run } = this, units = run.cells;
    paint(this.map.canvas, run.steps, units, (t, k) => diverging((run.state[t * units + k] - 128) / 127));
  }

  addMap(text) {
    const box = make("div", "map"), canvas = make("canvas"), cursor = make("div", "cursor"), line = make("div", "line");
    const caption = make("p", "soft", text), { run } = this;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", text);
    line.style.left = `${(100 * (run.separator + 0.5)) / run.steps}%`;
    box.append(canvas, line, cursor);
    box.onclick = (event) => {
      const { left, width } = canvas.getBoundingClientRect();
      go(Math.floor(((event.clientX - left) / width) * run.steps));
    };
    this.root.append(caption, box);
    return { box, canvas, cursor, caption };
  }

  // the cells that the head comes to, counted along its path: one that goes left of its first stays in one piece
  visited() {
    const { run, head } = this, m = run.cells, short = (d) => ((((d + (m >> 1)) % m) + m) % m) - (m >> 1);
    if (run.kind === "attention") return [0, m - 1];
    const path = run.paths[head];
    let at = short(path[0]), first = at, last = at;
    for (let t = 0; t < run.steps; t++) {
      if (t) at += short(path[t] - path[t - 1]);
      for (let i = 0; i < m; i++)
        if (weight(run, t, head, i) >= 0.02) {
          const place = at + short(i - path[t]);
          if (place < first) first = place;
          if (place > last) last = place;
        }
    }
    return last - first < m ? [first, last] : [0, m - 1]; // a head that comes round is on the cells as they are
  }

  drawMap() {
    const { run, head } = this, m = run.cells, [first, last] = this.visited();
    paint(this.map.canvas, run.steps, last - first + 1, (t, y) => blue(weight(run, t, head, (((last - y) % m) + m) % m)));
    const what = run.kind === "attention" ? "positions" : "cells";
    this.map.caption.textContent = `Where the head is over time: ${what} ${first} (bottom) to ${last} (top); the stronger the colour, the more weight. Dotted: the separator.`;
    this.map.canvas.setAttribute("aria-label", this.map.caption.textContent);
  }

  // whose writing the letters on the tape show
  writers() {
    const { run, head } = this;
    if (run.heads[head].kind === "write") return [head];
    return run.sources ? [run.sources[head]] : run.heads.flatMap((h, k) => (h.kind === "write" ? [k] : []));
  }

  symbol(i, writers) {
    const { run, time } = this;
    if (run.kind === "attention") return i <= time ? run.tokens[i] : "";
    const last = lastWrite(run, time, i, writers);
    return last ? run.tokens[last.step] : "";
  }

  drawTape() {
    const { run, head, time, tape } = this, m = run.cells, here = run.paths[head][time];
    const room = Math.max(5, Math.floor((tape.clientWidth || 360) / 38)), count = Math.min(m, room - (room % 2 ? 0 : 1));
    if (tape.children.length !== count) {
      tape.replaceChildren(...Array.from({ length: count }, () => {
        const cell = make("div", "cell");
        cell.append(make("div", "heads"), make("div", "symbol"), make("canvas"), make("div", "weight"), make("div", "heads"), make("div", "number"));
        cell.children[3].append(make("i"));
        cell.onmouseenter = cell.onclick = () => { this.pointed = cell; this.ask(+cell.dataset.cell); };
        cell.onmouseleave = () => { this.pointed = null; this.ask(null); };
        return cell;
      }));
      if (!run.memory) tape.querySelectorAll("canvas").forEach((c) => c.remove());
    }
    const writers = this.writers(), half = count >> 1, letters = [];
    const first = run.kind === "attention" ? Math.max(0, Math.min(m - count, here - half)) : here - half; // a tape of tokens has ends
    const at = new Map();
    run.heads.forEach((h, k) => {
      if (h.kind === "attention" && k !== head) return;
      const i = run.paths[k][time];
      at.set(i, [...(at.get(i) ?? []), k]);
    });
    [...tape.children].forEach((cell, k) => {
      const i = (((first + k) % m) + m) % m, w = weight(run, time, head, i);
      cell.dataset.cell = i;
      if (cell === this.pointed) this.asked = i; // what is under the pointer has moved
      cell.classList.toggle("here", i === here);
      cell.classList.toggle("asked", i === this.asked);
      const marks = cell.querySelectorAll(".heads");
      marks.forEach((mark, below) => {
        mark.replaceChildren(...(at.get(i) ?? []).filter((h) => (run.heads[h].kind === "write") !== Boolean(below)).map((h) => {
          const name = run.heads[h].kind === "attention" ? "▲" : (below ? "▲" : "▼") + run.heads[h].name.replace(/(.).* /, (_, c) => c.toUpperCase());
          return make(h === head ? "b" : "span", "", name + " ");
        }));
      });
      letters.push($(".symbol", cell).textContent = this.symbol(i, writers));
      $(".weight i", cell).style.height = `${100 * w}%`;
      $(".number", cell).textContent = i;
      if (run.memory) {
        const n = run.numbers, base = (time * m + i) * n;
        paint($("canvas", cell), 1, n, (x, y) => diverging(run.memory[base + y] / run.largest));
      }
    });
    tape.setAttribute("aria-label", `cells ${tape.firstChild.dataset.cell} to ${tape.lastChild.dataset.cell} with ${letters.map((x) => x || "nothing").join(", ")}; ${run.heads[head].name} is on ${here}`);
    this.letters.textContent = run.kind === "attention" ? "The tape: the tokens read so far" :
      `Letters: the token that was read when ${writers.length > 1 ? "a write head" : run.heads[writers[0]].name} last wrote to the cell`;
  }

  ask(cell) {
    this.asked = cell;
    [...this.tape.children].forEach((c) => c.classList.toggle("asked", +c.dataset.cell === cell));
    this.say();
  }

  say() {
    const { run, time, head } = this, lines = [];
    const writes = time >= run.separator;
    lines.push(`Step ${time + 1} of ${run.steps} reads ${run.tokens[time]}${writes ? ` and writes ${run.predicted[time]} (probability ${run.probabilities[time].toFixed(3)})` : ""}${writes && this.wrong(time) ? `, wrong: ${run.expected[time - run.separator]} would be right` : ""}.`);
    if (run.heads.length) {
      const here = run.paths[head][time], place = run.kind === "attention" ? "position" : "cell";
      lines.push(`Head ${run.heads[head].name} is on ${place} ${here} with weight ${weight(run, time, head, here).toFixed(3)}.`);
      if (this.asked !== null && run.kind !== "attention") {
        const last = lastWrite(run, time, this.asked, this.writers());
        const most = last ?? mostWritten(run, time, this.asked, this.writers());
        const at = `at step ${most.step + 1}, which read ${run.tokens[most.step]}, by ${run.heads[most.head].name}`;
        const share = weight(run, most.step, most.head, this.asked);
        lines.push(`Cell ${this.asked}: ` + (last ? `last ${run.kind === "ntm" ? "visited by a write head" : "written"} ${at}.` : share < 0.001 ? "not written so far." : `written only faintly so far, most (weight ${share.toFixed(3)}) ${at}.`));
      }
    }
    const other = panels.find((p) => p !== this && p.run.kind === run.kind && run.paths && p.head === head && p.run.heads[head]?.name === run.heads[head].name);
    if (other) {
      const apart = run.paths[head].findIndex((cell, t) => t < other.run.steps && cell !== other.run.paths[head][t]);
      const both = run.steps === other.run.steps ? "" : ", as long as both last";
      lines.push(apart < 0 ? `This head is on the same cells in both${both}.` : `This head is first on another cell than in the other at step ${apart + 1}.`);
    }
    this.said.textContent = lines.join(" ");
  }

  draw(time) {
    const { run } = this;
    this.time = Math.min(time, run.steps - 1);
    [...this.tokens.children].forEach((span, t) => {
      span.classList.toggle("later", t > this.time);
      span.classList.toggle("now", t === this.time);
    });
    const now = this.tokens.children[this.time];
    this.tokens.scrollLeft = now.offsetLeft - this.tokens.clientWidth / 2;
    const given = [];
    for (let t = run.separator; t <= this.time; t++) {
      const wrong = this.wrong(t), span = make("span", wrong ? "wrong" : run.expected ? "right" : "", run.predicted[t]);
      if (wrong) span.title = `${run.expected[t - run.separator]} would be right`;
      given.push(span);
    }
    this.answer.replaceChildren(...given);
    const width = 100 / run.steps;
    this.map.cursor.style.cssText = `left:${this.time * width}%; width:max(3px, ${width}%)`;
    if (run.heads.length) this.drawTape();
    this.say();
  }
}

// ---- all of them, in one time

let panels = [], time = 0, timer = null;

function go(t) {
  const last = Math.max(...panels.map((p) => p.run.steps)) - 1;
  time = Math.max(0, Math.min(last, t));
  panels.forEach((panel) => panel.draw(time));
  const slider = $("#time");
  slider.value = time;
  slider.setAttribute("aria-valuetext", `step ${time + 1} of ${last + 1}, reads ${panels[0].run.tokens[panels[0].time]}`);
  document.documentElement.dataset.time = time;
  if (time === last) pause();
}

function choose(name, from) {
  for (const panel of panels) {
    const h = panel.run.heads.findIndex((head) => head.name === name);
    if (h < 0 || (panel !== from && panel.run.kind !== from.run.kind)) continue;
    panel.head = h;
    panel.select.value = h;
    panel.drawMap();
  }
  go(time);
}

function pause() {
  clearInterval(timer);
  timer = null;
  $("#play").textContent = "play";
  $("#play").setAttribute("aria-label", "play");
  panels.forEach((p) => p.said.setAttribute("aria-live", "polite"));
}

function play() {
  if (timer) return pause();
  if (time >= +$("#time").max) go(0);
  $("#play").textContent = "pause";
  $("#play").setAttribute("aria-label", "pause");
  panels.forEach((p) => p.said.setAttribute("aria-live", "off")); // nobody wants to be told every step of a film
  timer = setInterval(() => go(time + 1), 1000 / +$("#speed").value);
}

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const tag = target.tagName, typing = tag === "SELECT", step = event.shiftKey ? 10 : 1;
  const sliding = tag === "INPUT";
  const acts = {
    ArrowLeft: () => go(time - step), ArrowRight: () => go(time + step), Home: () => go(0), End: () => go(Infinity),
    ArrowUp: () => nextHead(-1), ArrowDown: () => nextHead(1), "[": () => nextCell(-1), "]": () => nextCell(1), " ": play,
    Escape: () => panels.filter((p) => p.tape).forEach((p) => p.ask(null)),
  };
  if (!acts[key] || (typing && key !== "ArrowLeft" && key !== "ArrowRight") || (tag === "BUTTON" && key === " ")) return;
  if (sliding && (key === "ArrowUp" || key === "ArrowDown")) return;
  event.preventDefault();
  acts[key]();
}

function nextHead(by) {
  const panel = panels.find((p) => p.run.heads.length);
  if (!panel) return;
  const count = panel.run.heads.length;
  choose(panel.run.heads[(panel.head + by + count) % count].name, panel);
}

function nextCell(by) {
  for (const panel of panels.filter((p) => p.run.paths)) {
    const m = panel.run.cells, from = panel.asked ?? panel.run.paths[panel.head][panel.time] - by;
    panel.ask((((from + by) % m) + m) % m);
  }
}

async function begin() {
  const runs = await Promise.all(JSON.parse($("#trace").textContent).map(prepare));
  const box = $(".panels");
  panels = runs.map((run) => {
    const root = make("section", "panel");
    root.setAttribute("aria-label", run.title);
    box.append(root);
    return new Panel(run, root);
  });
  box.classList.toggle("two", panels.length > 1);
  $("#time").max = Math.max(...runs.map((run) => run.steps)) - 1;
  $("#time").oninput = (event) => go(+event.target.value);
  $("#back").onclick = () => go(time - 1);
  $("#next").onclick = () => go(time + 1);
  $("#first").onclick = () => go(0);
  $("#last").onclick = () => go(Infinity);
  $("#play").onclick = play;
  $("#speed").onchange = () => { if (timer) { pause(); play(); } };
  document.addEventListener("keydown", onKey);
  addEventListener("resize", () => go(time));
  dark.addEventListener("change", () => { panels.forEach((p) => (p.run.heads.length ? p.drawMap() : p.drawStates())); go(time); });
  go(0);
  document.documentElement.dataset.ready = "yes";
}

begin();

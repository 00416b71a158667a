// ---- colours

const SCALES = { light: [[255, 255, 255], [66, 146, 198], [8, 48, 107]], dark: [[13, 17, 23], [38, 110, 190], [150, 205, 255]] };
function blue(x) { // 0 is the background, 1 the strongest colour
  const scale = SCALES[dark.matches ? "dark" : "light"], half = x < 0.5 ? 0 : 1, share = 2 * x - half;
  return scale[half].map((from, c) => from + share * (scale[half + 1][c] - from));
}
function diverging(x) { // -1 is red, 0 the background, 1 blue
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

// ---- one trace

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
    root.append(this.tokens, make("p", "soft", "Answer so far:"), this.answer, this.said);
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
    this.map = this.addMap("The units of the state (from top to bottom) over time. Blue is positive, orange negative. The dotted line marks the separator.");
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

  // the cells that the head visits, counted along its path, so that a path to the left of its start is not split
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
    return last - first < m ? [first, last] : [0, m - 1]; // a head that came round is shown on all cells
  }

  drawMap() {
    const { run, head } = this, m = run.cells, [first, last] = this.visited();
    paint(this.map.canvas, run.steps, last - first + 1, (t, y) => blue(weight(run, t, head, (((last - y) % m) + m) % m)));
    const what = run.kind === "attention" ? "positions" : "cells";
    this.map.caption.textContent = `The address of the head over time, on ${what} ${first} (bottom) to ${last} (top). Stronger colours are larger weights. The dotted line marks the separator.`;
    this.map.canvas.setAttribute("aria-label", this.map.caption.textContent);
  }

  // the write heads whose symbols the tape shows
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
    const first = run.kind === "attention" ? Math.max(0, Math.min(m - count, here - half)) : here - half; // a tape of tokens is no ring
    const at = new Map();
    run.heads.forEach((h, k) => {
      if (h.kind === "attention" && k !== head) return;
      const i = run.paths[k][time];
      at.set(i, [...(at.get(i) ?? []), k]);
    });
    [...tape.children].forEach((cell, k) => {
      const i = (((first + k) % m) + m) % m, w = weight(run, time, head, i);
      cell.dataset.cell = i;
      if (cell === this.pointed) this.asked = i; // the cell under the pointer has changed
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
    tape.setAttribute("aria-label", `cells ${tape.firstChild.dataset.cell} to ${tape.lastChild.dataset.cell} with ${letters.map((x) => x || "nothing").join(", ")}; head ${run.heads[head].name} is on ${here}`);
    this.letters.textContent = run.kind === "attention" ? "The tape shows the tokens read so far." :
      `The letter on a cell is the token that was read when ${writers.length > 1 ? "a write head" : `head ${run.heads[writers[0]].name}`} last wrote to it.`;
  }

  ask(cell) {
    this.asked = cell;
    [...this.tape.children].forEach((c) => c.classList.toggle("asked", +c.dataset.cell === cell));
    this.say();
  }

  say() {
    const { run, time, head } = this, lines = [];
    const writes = time >= run.separator;
    lines.push(`Step ${time + 1} of ${run.steps} reads ${run.tokens[time]}${writes ? ` and writes ${run.predicted[time]} (probability ${run.probabilities[time].toFixed(3)})` : ""}${writes && this.wrong(time) ? `, which is wrong: ${run.expected[time - run.separator]} would be right` : ""}.`);
    if (run.heads.length) {
      const here = run.paths[head][time], place = run.kind === "attention" ? "position" : "cell";
      lines.push(`Head ${run.heads[head].name} is on ${place} ${here} with weight ${weight(run, time, head, here).toFixed(3)}.`);
      if (this.asked !== null && run.kind !== "attention") {
        const last = lastWrite(run, time, this.asked, this.writers());
        const most = last ?? mostWritten(run, time, this.asked, this.writers());
        const at = `at step ${most.step + 1}, which read ${run.tokens[most.step]}, by head ${run.heads[most.head].name}`;
        const share = weight(run, most.step, most.head, this.asked);
        lines.push(`Cell ${this.asked}: ` + (last ? `last ${run.kind === "ntm" ? "visited by a write head" : "written"} ${at}.` : share < 0.001 ? "not written so far." : `so far written with small weights only, the largest (${share.toFixed(3)}) ${at}.`));
      }
    }
    const other = panels.find((p) => p !== this && p.run.kind === run.kind && run.paths && p.head === head && p.run.heads[head]?.name === run.heads[head].name);
    if (other) {
      const apart = run.paths[head].findIndex((cell, t) => t < other.run.steps && cell !== other.run.paths[head][t]);
      const both = run.steps === other.run.steps ? "" : " up to the end of the shorter one";
      lines.push(apart < 0 ? `This head is on the same cells in both traces${both}.` : `This head is first on a different cell than in the other trace at step ${apart + 1}.`);
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

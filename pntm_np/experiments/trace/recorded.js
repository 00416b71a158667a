"use strict";
// Opening the page computes everything from the recorded trace; playing a step only looks it up.

const WRITTEN = 0.5; // least address with which a head counts as having written a cell
const dark = matchMedia("(prefers-color-scheme: dark)");
const $ = (selector, root = document) => root.querySelector(selector);
const make = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

async function unpacked({ data, dtype }) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  return dtype === "f4" ? new Float32Array(buffer) : dtype === "u2" ? new Uint16Array(buffer) : new Uint8Array(buffer);
}

// ---- addresses and memory, by the recurrences

// a_t[i] = left a[i+1] + stay a[i] + right a[i-1], starting on the first cell; a step shifts last
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

// M = (1 - w) M + w v: each write head has its own share of every cell
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

// M = M (1 - w_1 e_1) (1 - w_2 e_2) .. + w_1 d_1 + w_2 d_2 + ..: each write head writes whole cells
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

// the last step up to t at which one of these heads had at least half of its address on the cell
function lastWrite(run, t, i, writers) {
  for (let s = t; s >= 0; s--) {
    let by = -1;
    for (const w of writers) if (weight(run, s, w, i) >= WRITTEN && (by < 0 || weight(run, s, w, i) > weight(run, s, by, i))) by = w;
    if (by >= 0) return { step: s, head: by };
  }
  return null;
}

// the step up to t at which one of these heads had the largest address on the cell
function mostWritten(run, t, i, writers) {
  let best = { step: 0, head: writers[0] };
  for (let s = 0; s <= t; s++)
    for (const w of writers) if (weight(run, s, w, i) > weight(run, best.step, best.head, i)) best = { step: s, head: w };
  return best;
}

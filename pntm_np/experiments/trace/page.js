// ---- all panels at the same time step

let panels = [], time = 0, timer = null;

function go(t) {
  const last = Math.max(...panels.map((p) => p.run.steps)) - 1;
  time = Math.max(0, Math.min(last, t));
  panels.forEach((panel) => panel.draw(time));
  const slider = $("#time");
  slider.value = time;
  slider.setAttribute("aria-valuetext", `step ${time + 1} of ${last + 1}, which reads ${panels[0].run.tokens[panels[0].time]}`);
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
  panels.forEach((p) => p.said.setAttribute("aria-live", "off")); // a screen reader should not read every step aloud
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

// Keeps the page live: cells are painted from small changes, sections marked `data-live` are fetched anew when something is
// said differently. Without this script every page works as it is, only not by itself.
"use strict";

const GAP = 2;
const CLASSES = { u: "well", r: "well", m: "moving", n: "moving", x: "moving", w: "quiet", o: "quiet", p: "paused", b: "blocked", d: "failed", f: "failed", q: "quiet" };
const SIGNS = { u: "", r: "", m: "↻", n: "↻", x: "−", w: "", o: "", p: "‖", b: "!", d: "✕", f: "✕", q: "?" };
const contact = document.getElementById("contact");
const told = document.getElementById("told");
const bands = new Map();

class Band {
  constructor(section) {
    this.section = section;
    this.canvas = section.querySelector("canvas");
    this.names = []; this.states = []; this.at = 0;
    this.canvas.hidden = false;
    this.canvas.addEventListener("mousemove", (event) => this.tell(this.cellAt(event)));
    this.canvas.addEventListener("click", (event) => this.open(this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => { this.paint(); this.tell(this.at); });
    this.canvas.addEventListener("blur", () => this.paint());
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  set(cells) {
    this.names = cells.names; this.states = [...cells.states];
    this.index = new Map(this.names.map((name, place) => [name, place]));
    this.paint();
  }

  change(name, state) {
    const place = this.index && this.index.get(name);
    if (place === undefined) return;
    this.states[place] = state;
    this.paint();
  }

  // A few nodes are easier to point at when they are large; ten thousand still fit.
  cell() { return this.names.length <= 60 ? 32 : this.names.length <= 600 ? 20 : 14; }

  columns() { return Math.max(1, Math.floor(this.canvas.clientWidth / this.cell())); }

  paint() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const CELL = this.cell(), columns = this.columns(), rows = Math.ceil(this.names.length / columns), scale = devicePixelRatio || 1;
    this.canvas.style.height = rows * CELL + "px";
    this.canvas.width = this.canvas.clientWidth * scale;
    this.canvas.height = rows * CELL * scale;
    const pen = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colours = {};
    for (const [letter, name] of Object.entries(CLASSES)) colours[letter] = style.getPropertyValue("--" + name);
    pen.scale(scale, scale);
    pen.font = `bold ${CELL - 4}px sans-serif`; pen.textAlign = "center"; pen.textBaseline = "middle";
    const ground = style.getPropertyValue("--panel"), ink = style.getPropertyValue("--ink");
    this.states.forEach((letter, place) => {
      const x = (place % columns) * CELL, y = Math.floor(place / columns) * CELL;
      pen.fillStyle = colours[letter] || colours.o;
      pen.fillRect(x, y, CELL - GAP, CELL - GAP);
      if (SIGNS[letter]) { pen.fillStyle = ground; pen.fillText(SIGNS[letter], x + CELL / 2 - 1, y + CELL / 2); }
      if (place === this.at && document.activeElement === this.canvas) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect(x, y, CELL - GAP, CELL - GAP); }
    });
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const size = this.cell(), column = Math.floor((event.clientX - box.left) / size), row = Math.floor((event.clientY - box.top) / size);
    return column < this.columns() ? row * this.columns() + column : -1;
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns(), ArrowDown: this.columns() };
    if (event.key === "Enter") return this.open(this.at);
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.at = Math.min(this.names.length - 1, Math.max(0, this.at + steps[event.key]));
    this.paint();
    this.tell(this.at);
  }

  open(place) { if (this.names[place]) location.href = "/node/" + encodeURIComponent(this.names[place]); }

  // The sentence about one cell: the same that the node's page begins with.
  tell(place) {
    const name = this.names[place];
    if (!name || name === this.telling) return;
    this.telling = name;
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const answer = await fetch("/node/" + encodeURIComponent(name) + "/sentence").catch(() => null);
      const text = answer && answer.ok ? await answer.text() : "";
      if (text && this.telling === name && told) told.textContent = text;
    }, 120);
  }

  head(pool) {
    const field = (name) => this.section.querySelector(`[data-field=${name}]`);
    field("count").textContent = pool.counted ? `${pool.updated} of ${pool.nodes} nodes updated` : "not counted";
    field("waits").textContent = pool.waits[0] || pool.summary;
    const progress = this.section.querySelector("progress");
    progress.max = Math.max(1, pool.nodes);
    if (pool.counted) progress.value = pool.updated; else progress.removeAttribute("value");
    const badge = field("state").firstElementChild, known = legend(pool.state);
    if (badge && known) { badge.className = known.className; badge.replaceChildren(...known.cloneNode(true).childNodes); }
  }
}

// The badge of a state as the server draws it in the legend.
function legend(state) {
  return [...document.querySelectorAll(".legend .state")].find((badge) => badge.textContent.trim().endsWith(state));
}

async function look(address) {
  const answer = await fetch(address, { credentials: "same-origin" }).catch(() => null);
  if (!answer || !answer.ok) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

async function cells() {
  const answer = await fetch("/fleet.json" + location.search).catch(() => null);
  if (!answer || !answer.ok) return;
  const { version, pools } = await answer.json();
  // An answer that was overtaken by a change is older than what is painted.
  if (version < seen) return cells();
  if (pools.some((pool) => pool.names.length && !bands.has(pool.name))) return location.reload();
  for (const pool of pools) if (bands.has(pool.name)) { bands.get(pool.name).set(pool); bands.get(pool.name).head(pool); }
}

// With a filter every change may bring a node or take one away, so the cells are counted anew, at most once a second.
const filtered = [...new URLSearchParams(location.search)].some(([name, value]) => name !== "page" && value);
let recount = null;
function count() {
  if (!recount) recount = setTimeout(() => { recount = null; cells(); }, 1000);
}

let due = null;
function refresh() {
  // At most once a second: a rollout of thousands says something at every moment.
  if (due) return;
  due = setTimeout(async () => {
    due = null;
    const page = await look(location.href);
    if (!page) return;
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (!fresh || fresh.innerHTML === old.innerHTML) continue;
      const open = [...old.querySelectorAll("details")].map((it) => it.open);
      const active = document.activeElement && old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      old.replaceChildren(...fresh.childNodes);
      old.querySelectorAll("details").forEach((it, place) => { it.open = open[place] || false; });
      if (active) { const again = [...old.querySelectorAll("a")].find((a) => a.getAttribute("href") === active); if (again) again.focus(); }
    }
  }, 1000);
}

function concerns(change) {
  if (change.moved || change.noted || filtered || !bands.size) return true;
  const rows = new Set([...document.querySelectorAll("[data-node]")].map((row) => row.dataset.node));
  return Object.keys(change.nodes || {}).some((name) => rows.has(name));
}

// The newest scene that this page has seen.
let seen = Number(document.documentElement.dataset.version || 0);
let source = null;

function say(state, text) {
  contact.textContent = text;
  document.documentElement.dataset.contact = state;
}

// Browsers keep few connections to one address, so only pages that are looked at have a stream.
function follow() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
  } else if (!source) {
    listen();
  }
}

// A stream ends every minute, and the browser opens the next one at once. Only a gap that lasts is worth a word.
const GRACE = 4000;
let late = null;

function lost() {
  if (!late && document.documentElement.dataset.contact !== "lost") {
    late = setTimeout(() => { late = null; say("lost", "not connected; trying again"); }, GRACE);
  }
  ask();
}

// Whether the session still holds. A dashboard that was started anew knows none.
async function ask() {
  const answer = await fetch("/events", { method: "HEAD" }).catch(() => null);
  if (answer && answer.status === 403) {
    if (answer.headers.get("machinist-entry") === "token") {
      location.assign("/login?ended=1&next=" + encodeURIComponent(location.pathname + location.search));
      return;
    }
    clearTimeout(late); late = null;
    say("lost", "not connected; open the link that the dashboard printed when it was started again");
  }
  // A browser asks again by itself after a broken line, but not after an answer that is no stream.
  if (source && source.readyState === EventSource.CLOSED) {
    source = null;
    setTimeout(follow, GRACE);
  }
}

function listen() {
  source = new EventSource("/events");
  source.addEventListener("hello", (event) => {
    clearTimeout(late); late = null;
    say("live", "live");
    const version = Number(event.data);
    // What happened between the page and the stream, or while there was none, is fetched. After a restart versions begin anew.
    if (version !== seen) { seen = version; if (bands.size) cells(); refresh(); }
  });
  source.addEventListener("scene", (event) => {
    const change = JSON.parse(event.data);
    if (change.version) seen = change.version;
    if (bands.size) {
      if (change.moved) cells(); else if (filtered && change.said) count();
      for (const [name, state] of Object.entries(change.nodes || {})) for (const band of bands.values()) band.change(name, state);
      for (const pool of change.pools || []) if (bands.has(pool.name)) bands.get(pool.name).head(pool);
    }
    if (change.said && concerns(change)) refresh();
  });
  source.onerror = lost;
}

// A file that is dropped on the plan's form is put into it; nothing is sent before the button is pressed.
for (const field of document.querySelectorAll("[data-drop]")) {
  field.addEventListener("dragover", (event) => { event.preventDefault(); field.classList.add("over"); });
  field.addEventListener("dragleave", () => field.classList.remove("over"));
  field.addEventListener("drop", async (event) => {
    event.preventDefault();
    field.classList.remove("over");
    const texts = await Promise.all([...event.dataTransfer.files].map((file) => file.text()));
    if (texts.length) field.value = texts.join("\n---\n");
  });
}

for (const section of document.querySelectorAll(".band[data-pool]")) bands.set(section.dataset.pool, new Band(section));
if (bands.size) cells();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const band of bands.values()) band.paint(); });
if (contact) { follow(); document.addEventListener("visibilitychange", follow); }

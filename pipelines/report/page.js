"use strict";
// The page: unpacks the numbers, and draws what is chosen. Keys are data: they enter the page as
// text nodes and as values of rows, never as markup or as an expression.
(() => {
  const $ = (id) => document.getElementById(id);
  const NONE = -(2 ** 31), KEYS = 8, FOUND = 12, ROWS = 300, SMALL = 110;
  const DONE = "Finished: every tick is released.";
  const NEEDS = { margin: "lo", hidden: "noise", baseline: "b", interval: "e", estimate: "e", stick: "alone", dot: "alone" };
  const state = { keys: [], off: new Set(), from: 0, to: 0, whole: true, apart: true };
  let page = null, drawn = 0, views = [], pending = null;

  const make = (tag, attributes = {}, ...inside) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...inside.filter((one) => one !== null));
    return node;
  };

  // Numbers, dates and words
  const day = 86400e6;
  function when(ms) {
    const at = new Date(ms);
    if (isNaN(at)) return "beyond the year 9999";
    const iso = at.toISOString(), whole = (us) => page.period % us === 0;
    if (whole(day) && iso.endsWith("T00:00:00.000Z")) return iso.slice(0, 10);
    return iso.slice(0, whole(60e6) ? 16 : whole(1e6) ? 19 : 23).replace("T", " ");
  }
  function told(value, half, lo = null, hi = null) {
    if (value === null) return "no value";
    if (lo !== null && Math.abs(hi - value - (value - lo)) > .025 * (hi - lo)) return `${short(value)} (${short(lo)} to ${short(hi)})`;
    const scale = half > 0 ? half : Math.abs(value) / 100;
    const decimals = scale > 0 ? Math.max(0, Math.min(8, 1 - Math.floor(Math.log10(scale)))) : 0;
    const show = (x) => x.toLocaleString("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace(/^-(?=[0.,]*$)/, "").replace(/^-/, "\u2212");
    return half > 0 ? `${show(value)} \u00b1 ${show(half)}` : show(value);
  }
  function short(x) { // three digits, and all of a whole number
    const digits = x ? Math.max(0, Math.min(8, 2 - Math.floor(Math.log10(Math.abs(x))))) : 0;
    return x.toLocaleString("en-US", { maximumFractionDigits: digits }).replace(/^-(?=[0.,]*$)/, "").replace(/^-/, "\u2212");
  }
  const named = (key) => key || "(empty)";
  const plural = (n, word) => `${n.toLocaleString("en-US")} ${word}${n === 1 ? "" : "s"}`;

  // Unpacking: see pack.py
  async function unpack(text, columns) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const n = planes.length / 4, codes = new Int32Array(n);
    for (let i = 0; i < n; i++) {
      const step = planes[i] | planes[n + i] << 8 | planes[2 * n + i] << 16 | planes[3 * n + i] << 24;
      codes[i] = i % columns ? (codes[i - 1] + step) | 0 : step;
    }
    return codes;
  }
  async function unpacked(block, columns) {
    if (!block || block.codes) return;
    block.codes = await unpack(block.value, columns);
    for (const [name, from] of [["halves", block.half], ["lows", block.low], ["highs", block.high]])
      block[name] = from ? await unpack(from, columns) : null;
    await unpacked(block.base, columns);
  }
  function number(codes, at, step) {
    return codes === null || codes[at] === NONE ? null : Number((codes[at] * step).toPrecision(10));
  }
  async function load(given) {
    for (const grid of [given.fine, given.coarse])
      if (grid) grid.row = new Map(grid.keys.map((key, i) => [key, i]));
    for (const figure of given.figures)
      for (const part of figure.parts) {
        await unpacked(part.fine, given.fine.times.length);
        if (part.coarse) await unpacked(part.coarse, given.coarse.times.length);
        await unpacked(part.estimate, given.fine.times.length);
      }
    for (const heat of given.heats) await unpacked(heat, heat.times.length);
    page = given;
  }

  // A key's numbers of one component: in full, or at the ticks that all keys have
  function points(figure, part, key, slot) {
    const fine = page.fine.row.has(key), grid = fine ? page.fine : page.coarse;
    const block = fine ? figure.parts[part].fine : figure.parts[part].coarse;
    if (!grid || !block || !grid.row.has(key)) return [];
    const estimate = fine ? figure.parts[part].estimate : null;
    const n = grid.times.length, row = grid.row.get(key), [low, high] = figure.between;
    const shared = block.halves && block.halves.length === n;
    const cut = (x) => Math.min(high ?? Infinity, Math.max(low ?? -Infinity, x));
    const room = low === null || high === null ? Infinity : high - low, inside = room < Infinity;
    const found = [];
    for (let i = 0; i < n; i++) {
      const t = grid.times[i];
      if (t < state.from || t > state.to) continue;
      const v = number(block.codes, row * n + i, block.step);
      const half = v === null ? null : number(block.halves, shared ? i : row * n + i, block.step);
      if (v === null && !found.length) continue;
      const noise = v !== null && half !== null && (half > Math.abs(v) || 2 * half >= room);
      const band = v !== null && half !== null;
      const b = block.base ? number(block.base.codes, row * n + i, block.base.step) : null;
      const lo = band ? number(block.lows, row * n + i, block.step) ?? Math.min(v, cut(v - half)) : null;
      const hi = band ? number(block.highs, row * n + i, block.step) ?? Math.max(v, cut(v + half)) : null;
      const words = inside || block.lows ? told(v, half, lo, hi) : told(v, half);
      const [e, elo, ehi] = ["codes", "lows", "highs"].map((name) => estimate ? number(estimate[name], row * n + i, estimate.step) : null);
      found.push({ e, elo, ehi, t, v, b, half, noise, slot, key: named(key), lo, hi, at: grid.ticks[i], when: when(t),
        tick: grid.ticks[i].toLocaleString("en-US"), words, told: words + (noise ? ", noise" : "") });
    }
    // A line is coloured up to the points at which noise begins to hide it.
    found.forEach((one, i) => {
      one.s = one.noise ? null : one.v;
      const has = (other) => other && other.v !== null;
      one.alone = one.v !== null && !has(found[i - 1]) && !has(found[i + 1]);
    });
    return found;
  }
  const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  function limits(rows, [least, most]) {
    let seen = rows.filter((one) => one.v !== null);
    if (!seen.length) return [0, 1];
    const halves = seen.map((one) => one.half ?? 0).sort((a, b) => a - b);
    const usual = 1.5 * Math.min(quantile(halves, 0.9), 4 * quantile(halves, 0.5));
    const calm = seen.filter((one) => (one.half ?? 0) <= usual || !usual);
    if (calm.length) seen = calm;
    let low = Infinity, high = -Infinity; // a value beyond its bounds is drawn where it is
    for (const one of seen) {
      low = Math.min(low, one.lo ?? one.v, one.v);
      high = Math.max(high, one.hi ?? one.v, one.v);
    }
    if (low > 0 && low < 0.4 * high) low = 0;
    const pad = high > low ? 0.04 * (high - low) : Math.abs(high) * 0.05 || 1;
    return [low === 0 || low === least ? low : low - pad, high === most && high > low ? high : high + pad];
  }

  // Colours and charts
  function look() {
    const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const words = { labelColor: of("--soft"), titleColor: of("--soft"), labelFontSize: 12, titleFontSize: 12 };
    return { background: null, font: "system-ui, sans-serif", view: { stroke: null },
      axis: { ...words, gridColor: of("--grid"), domainColor: of("--zero"), tickColor: of("--zero") },
      axisY: { domain: false, ticks: false }, legend: words, rule: { color: of("--ink") },
      range: { category: Array.from({ length: KEYS }, (_, i) => of(`--s${i}`)) } };
  }
  async function draw(turn, place, kind, rows, ends, height) {
    const spec = structuredClone(page.specs[kind]), description = place.getAttribute("aria-label");
    const values = { x0: state.from, x1: state.to, y0: ends[0], y1: ends[1] };
    for (const one of spec.params ?? []) if (one.name in values) one.value = values[one.name];
    Object.assign(spec, { description, width: "container", height, datasets: { rows, near: [] }, autosize: { type: "fit", contains: "padding" },
      padding: { left: 4, right: 14, top: 9, bottom: 4 } });
    if (kind === "lines")
      spec.layer = spec.layer.filter(({ name }) => !(name in NEEDS) || rows.some((one) => (one[NEEDS[name]] ?? false) !== false));
    if (height <= SMALL)
      for (const { encoding } of spec.layer) for (const axis of [encoding.x?.axis, encoding.y?.axis]) if (axis) axis.tickCount = 3;
    const dots = kind === "scatter" || kind === "heat"; // thousands: as a picture, not as elements
    const result = await vegaEmbed(place, spec, { renderer: dots ? "canvas" : "svg", scaleFactor: dots ? 2 : 1, actions: false, ast: true, logLevel: 1, config: look(),
      tooltip: (handler, event, item, words) => tip(event, words) });
    if (turn !== drawn) return result.finalize();
    views.push(result);
    place.setAttribute("role", "img"); // Vega has put its own
    place.setAttribute("aria-label", description);
    place.querySelector("svg, canvas")?.setAttribute("aria-hidden", "true");
    if (kind === "lines") {
      let picked = null;
      hover(place, result.view, rows);
      result.view.addSignalListener("brush", (_, value) => { picked = value.t ?? null; });
      place.addEventListener("pointerup", () => setTimeout(() => {
        if (picked && picked[1] - picked[0] > 0) zoom(+picked[0], +picked[1]);
      }));
      place.addEventListener("wheel", (event) => wheel(event, place), { passive: false });
      place.addEventListener("dblclick", () => zoom());
    }
  }
  // What is under the pointer: of lines the point that is nearest in time
  function tip(event, words) {
    const box = $("tip");
    box.hidden = !words;
    if (!words) return;
    box.replaceChildren(...Object.entries(words).map(([name, text]) => make("div", {}, make("b", {}, name), text)));
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    box.style.top = `${event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 10) : event.clientY + 18}px`;
  }
  function hover(place, view, rows) {
    const known = rows.filter((one) => one.v !== null);
    place.addEventListener("pointermove", (event) => {
      const svg = place.querySelector("svg"), box = svg.getBoundingClientRect(), [left, top] = view.origin();
      const ratio = svg.width.baseVal.value / box.width || 1, x = view.scale("x"), y = view.scale("y");
      const at = { x: (event.clientX - box.left) * ratio - left, y: (event.clientY - box.top) * ratio - top };
      let near = null, least = Infinity;
      for (const one of known) {
        const away = Math.abs(x(one.t) - at.x) + 1e-3 * Math.abs(y(one.v) - at.y);
        if (away < least) [near, least] = [one, away];
      }
      if (!near) return;
      view.data("near", [near]).runAsync();
      tip(event, { time: near.when, tick: near.tick, ...(page.keyless ? {} : { key: near.key }), value: near.told,
        ...(near.b === null ? {} : { baseline: short(near.b) }),
        ...(near.e === null ? {} : { estimate: `${short(near.e)} (${short(near.elo)} to ${short(near.ehi)})` }) });
    });
    place.addEventListener("pointerleave", (event) => { view.data("near", []).runAsync(); tip(event, null); });
  }
  function wheel(event, place) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = place.getBoundingClientRect(), share = (event.clientX - box.left) / box.width;
    const at = state.from + share * (state.to - state.from), factor = event.deltaY > 0 ? 1.25 : 0.8;
    zoom(at - (at - state.from) * factor, at + (state.to - at) * factor);
  }

  // What is seen
  const shown = () => state.keys.filter((key) => !state.off.has(key));
  const slot = (key) => state.keys.indexOf(key) % KEYS;
  function describe(figure, who, rows) {
    const known = rows.filter((one) => one.v !== null), last = known.at(-1);
    if (!last) return `${figure.title}${who}: no value in this range.`;
    const values = known.map((one) => one.v), hidden = known.filter((one) => one.noise).length;
    return `${figure.title}, ${figure.caption}${who}: ${last.told} on ${last.when}; between ` +
      `${told(Math.min(...values), last.half)} and ${told(Math.max(...values), last.half)} from ` +
      `${known[0].when} on. ${hidden ? hiding(figure, known) : ""}`;
  }
  function hiding(figure, known) {
    const hidden = known.filter((one) => one.noise).length;
    if (!hidden) return "";
    const [low, high] = figure.between;
    const than = low !== null && high !== null ? "than the value or its public range" : "than the value";
    const much = hidden === known.length ? "Noise hides it" : `Noise hides ${hidden} of ${plural(known.length, "value")}`;
    return `${much} (grey): the margin is wider ${than}.`;
  }
  function beyond(known, [low, high]) {
    const out = known.filter((one) => one.v < low || one.v > high).length;
    return out ? `${out.toLocaleString("en-US")} of ${plural(known.length, "value")} ${out === 1 ? "lies" : "lie"} beyond the axis.` : "";
  }
  function table(rows, several, first) {
    const head = make("tr", {}, ...[first, "tick", several ? "key" : null, "value"].filter(Boolean)
      .map((name) => make("th", { scope: "col" }, name)));
    const body = rows.filter((one) => one.v !== null).sort((a, b) => a.t - b.t).slice(-ROWS).map((one) =>
      make("tr", { class: one.noise ? "noise" : null }, make("th", { scope: "row" }, one.when), make("td", {}, one.tick),
        several ? make("td", {}, one.key) : null, make("td", {}, one.told)));
    return make("div", { class: "scroll", tabindex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  }
  function more(fill) {
    const box = make("details", { class: "table" }, make("summary", {}, "As a table"));
    box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(fill()); });
    return box;
  }
  function cell(turn, jobs, figure, who, rows, ends, several) {
    const last = rows.filter((one) => one.v !== null).at(-1), known = rows.filter((one) => one.v !== null);
    const place = make("div", { class: "chart", role: "img", "aria-label": describe(figure, who ? `, ${who}` : "", rows) });
    const notes = [several ? "" : hiding(figure, known), beyond(known, ends)].filter(Boolean);
    const node = make("figure", { class: "cell" }, make("figcaption", {},
      who ? make("span", { class: "who" }, who) : null,
      several || !last ? null : make("b", { class: last.noise ? "now noise" : "now" }, last.words),
      several || !last || figure.small ? null : make("span", { class: "soft" }, last.when),
      several || !last || last.b === null ? null : make("span", { class: "soft" }, `baseline ${short(last.b)}`),
      last ? null : make("span", { class: "soft" }, "no value in this range")),
    place, notes.length ? make("p", { class: "foot" }, notes.join(" ")) : null,
    more(() => table(rows, several, "date")));
    jobs.push(() => draw(turn, place, "lines", rows, ends, figure.small ? SMALL : 190));
    return node;
  }
  function histogram(turn, jobs, figure, key, ends) {
    const several = !page.keyless, all = figure.parts.map((_, i) => points(figure, i, key, slot(key)));
    const rows = all.map((part, i) => ({ ...part.filter((one) => one.v !== null).at(-1), bin: figure.bins[i], exact: figure.labels[i] }))
      .filter((one) => one.v !== undefined);
    const at = rows[0] ? rows[0].when : "";
    const place = make("div", { class: "chart", role: "img", "aria-label":
      `${figure.title}${several ? `, ${named(key)}` : ""}, ${at}: ${rows.map((one) => `${one.bin}: ${one.told}`).join("; ")}` });
    const list = () => make("div", { class: "scroll", tabindex: 0 }, make("table", {}, make("tbody", {}, ...rows.map((one) =>
      make("tr", { class: one.noise ? "noise" : null }, make("th", { scope: "row" }, one.exact), make("td", {}, one.told))))));
    jobs.push(() => draw(turn, place, "bars", rows, ends(rows), 40 + 26 * rows.length));
    const node = make("figure", { class: "cell" }, make("figcaption", {}, several ? make("span", { class: "who" }, named(key)) : null,
      make("span", { class: "soft" }, at)), place, rows.some((one) => one.noise) ?
      make("p", { class: "foot" }, "Grey: noise hides it; the margin is wider than the value.") : null, more(list));
    if (shown().length > 1) return [node];
    const step = Math.max(1, Math.ceil((all[0] ?? []).length / 120));
    const cells = all.flatMap((part, i) => part.filter((_, n) => (part.length - 1 - n) % step === 0)
      .map((one, n, kept) => ({ row: figure.bins[i], t: one.t, t2: kept[n + 1] ? kept[n + 1].t : one.t + page.period / 1000, v: one.v, when: one.when, told: one.told })));
    const over = make("div", { class: "chart", role: "img", "aria-label": mapped(`${figure.title}${several ? `, ${named(key)}` : ""}`, figure.bins.length, cells) });
    jobs.push(() => draw(turn, over, "heat", cells, [0, 1], 70 + 22 * figure.bins.length));
    return [node, make("figure", { class: "cell" }, make("figcaption", {}, make("span", { class: "soft" }, "over time")), over)];
  }
  function mapped(what, count, cells) {
    const known = cells.filter((one) => one.v !== null).sort((a, b) => a.v - b.v), [low, high] = [known[0], known.at(-1)];
    return `${what}, over time, ${plural(count, "row")}` + (low ? `: from ${low.told} (${low.row}, ${low.when}) to ${high.told} (${high.row}, ${high.when}).` : ": no value in this range.");
  }
  function everyone(turn, jobs, heat) {
    const all = `All ${page.keys.length.toLocaleString("en-US")} keys`;
    if (!heat.rows.length)
      return make("p", { class: "foot" }, `${all} are not drawn: their values differ by ${short(heat.spread)} (standard deviation of the medians over time), noise is ${short(heat.noise)}. A map would rank keys by noise.`);
    const n = heat.times.length, cells = [];
    heat.rows.forEach((row, r) => heat.times.forEach((t, i) => {
      const v = number(heat.codes, r * n + i, heat.step), end = heat.times[i + 1] ?? t + page.period / 1000;
      if (v !== null && t >= state.from && t <= state.to) cells.push({ row, t, t2: end, v, when: when(t), told: told(v, null) });
    }));
    const place = make("div", { class: "chart", role: "img", "aria-label": mapped(`${page.figures[heat.figure].title}, ${page.figures[heat.figure].caption}, all keys`, heat.rows.length, cells) });
    jobs.push(() => draw(turn, place, "heat", cells, [0, 1], 90 + 9 * heat.rows.length));
    return make("figure", { class: "cell wide" }, make("figcaption", {}, make("span", { class: "who" }, all),
      make("span", { class: "soft" }, heat.per > 1 ? `a row is the mean of about ${Math.round(heat.per)} keys of neighbouring rank` : "largest median over time first")), place);
  }
  function figureOf(turn, jobs, figure, section) {
    const keys = shown(), cells = [];
    if (figure.kind === "bars") {
      const ends = (rows) => limits(rows.concat([{ v: 0, half: 0 }]), figure.between);
      for (const key of keys) cells.push(...histogram(turn, jobs, figure, key, ends));
    } else {
      const each = keys.map((key) => points(figure, 0, key, slot(key)));
      const ends = limits(each.flat(), figure.between);
      if (figure.baseline) { // an axis of errors begins at 0, and a model of noise does not stretch it
        const most = 1.5 * Math.max(...each.flat().map((one) => one.b ?? 0));
        if (most > 0) [ends[0], ends[1]] = [0, Math.max(0.7 * most, Math.min(ends[1], most))];
      }
      const together = keys.length > 1 && !state.apart;
      if (together) cells.push(cell(turn, jobs, figure, "", each.flat(), ends, true));
      else keys.forEach((key, i) => cells.push(cell(turn, jobs, figure, page.keyless ? "" : named(key), each[i], ends, false)));
      const heat = page.heats.find((one) => one.figure === figure.id);
      if (heat && section.name !== "model") cells.push(everyone(turn, jobs, heat));
      if (each.flat().some((one) => one.v !== null) && !figure.small && !each.flat().some((one) => one.half !== null) && section.name !== "score")
        cells.push(make("p", { class: "foot" }, "No margin of error: the error of this release is not additive noise."));
    }
    const title = make("h3", {}, figure.title, " ", make("small", {}, figure.unit && figure.unit !== figure.title ? figure.unit : ""));
    return make("article", { class: cells.length > 1 ? "card wide" : "card", "aria-label": figure.title },
      make("header", {}, title, make("p", {}, figure.caption)), make("div", { class: "cells" }, ...cells),
      figure.left_out && section.name !== "model" ? make("p", { class: "foot" }, figure.left_out) : null);
  }
  function scatters(turn, jobs) {
    return page.scatters.map((one) => {
      const place = make("div", { class: "chart", role: "img", "aria-label": `${one.title}: ${plural(one.a.length, "event")}` });
      jobs.push(() => draw(turn, place, "scatter", one.a.map((a, i) => ({ a, p: one.p[i] })), one.ends, 230));
      return make("article", { class: "card" }, make("header", {}, make("h3", {}, one.title)), make("figure", { class: "cell" }, place));
    });
  }
  async function render() {
    const turn = ++drawn, jobs = [];
    for (const old of views) old.finalize();
    views = [];
    const sections = page.sections.map((section) => make("section", { class: `part ${section.name}`, "aria-label": section.title },
      make("h2", {}, section.title), section.note ? make("p", { class: "soft" }, section.note) : null,
      make("div", { class: "panels" }, ...section.figures.map((id) => figureOf(turn, jobs, page.figures[id], section)),
        ...(section.name === "score" ? scatters(turn, jobs) : []))));
    $("charts").replaceChildren(...sections);
    document.body.dataset.ready = "";
    for (const job of jobs) {
      if (turn !== drawn) return;
      await job();
    }
    if (turn === drawn) document.body.dataset.ready = jobs.length;
  }
  const later = () => { clearTimeout(pending); pending = setTimeout(render, 120); };

  // The range of time: two sliders, a brush on any chart, or Ctrl and the wheel
  function zoom(from, to) {
    const times = page.fine.times, first = times[0], last = times.at(-1);
    state.from = Math.max(first, from ?? first);
    state.to = Math.min(last, to ?? last);
    if (state.to < state.from) [state.from, state.to] = [first, last];
    state.whole = state.from === first && state.to === last;
    if (first === last) state.to = last + page.period / 1000;
    sliders();
    later();
  }
  function sliders() {
    const times = page.fine.times, near = (t) => times.reduce((best, one, i) => Math.abs(one - t) < Math.abs(times[best] - t) ? i : best, 0);
    for (const [id, t] of [["from", state.from], ["to", state.to]]) {
      const at = near(t);
      $(id).max = times.length - 1;
      $(id).value = at;
      $(id).setAttribute("aria-valuetext", when(times[at]));
      $(`${id}-date`).textContent = when(times[at]);
    }
    $("whole").disabled = state.whole;
  }
  function slid() {
    const [a, b] = [+$("from").value, +$("to").value].sort((x, y) => x - y);
    zoom(page.fine.times[a], page.fine.times[Math.min(page.fine.times.length - 1, a === b ? b + 1 : b)]);
  }

  // Keys: a box that searches all, and chips that show and hide those that were picked
  let found = [], active = -1;
  function search() {
    const text = $("search").value.toLowerCase();
    const starts = [], holds = [];
    for (const key of page.keys) {
      const at = named(key).toLowerCase().indexOf(text);
      if (at === 0) starts.push(key); else if (at > 0) holds.push(key);
      if (starts.length >= FOUND) break;
    }
    found = [...starts, ...holds].slice(0, FOUND);
    active = -1;
    options(true);
  }
  function options(open) {
    $("found").hidden = !open || !found.length;
    $("search").setAttribute("aria-expanded", String(!$("found").hidden));
    $("search").setAttribute("aria-activedescendant", active < 0 ? "" : `found-${active}`);
    $("found").replaceChildren(...found.map((key, i) => make("li", { id: `found-${i}`, role: "option", "aria-selected": String(i === active),
      on: { pointerdown: (event) => { event.preventDefault(); pick(key); } } }, named(key))));
  }
  function pick(key) {
    if (!state.keys.includes(key)) state.keys = state.keys.length < KEYS ? [...state.keys, key] : [...state.keys.slice(1), key];
    state.off.delete(key);
    $("search").value = "";
    options(false);
    chips();
    later();
    $("said").textContent = `${named(key)} is shown.`;
  }
  function chips() {
    $("chips").replaceChildren(...state.keys.map((key) => make("li", {},
      make("button", { type: "button", class: `chip s${slot(key)}`, "aria-pressed": String(!state.off.has(key)), title: "Show or hide",
        on: { click: () => { state.off.has(key) ? state.off.delete(key) : state.off.add(key); chips(); later(); } } }, make("i", {}), named(key)),
      make("button", { type: "button", class: "drop", "aria-label": `Remove ${named(key)}`,
        on: { click: () => { state.keys = state.keys.filter((one) => one !== key); state.off.delete(key); chips(); later(); } } }, "\u00d7"))));
  }

  // CSV of what is seen. Text that a spreadsheet would run gets an apostrophe, as the sinks do it.
  function csv() {
    const quoted = (text) => `"${String(text).replace(/^('*[=+\-@\t\r])/, "'$1").replaceAll('"', '""')}"`;
    const apart = page.figures.some((figure) => figure.interval);
    const lines = [`key,tick,tick_start,name,over,label,value,half_width${apart ? ",low,high" : ""}`];
    for (const id of page.sections.flatMap((section) => section.figures)) {
      const figure = page.figures[id];
      for (const key of shown()) figure.parts.forEach((_, part) => {
        for (const one of points(figure, part, key, 0))
          if (one.v !== null) lines.push([quoted(key), one.at, new Date(one.t).toISOString(), quoted(figure.name), figure.over ?? "", quoted(figure.labels[part]), one.v, one.half ?? "", ...(apart ? [one.lo ?? "", one.hi ?? ""] : [])].join(","));
      });
    }
    return lines.join("\r\n") + "\r\n";
  }
  function save() {
    const link = make("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: `${page.name.replace(/[^\w.-]+/g, "_") || "releases"}.csv` });
    document.body.append(link);
    link.click();
    setTimeout(() => { URL.revokeObjectURL(link.href); link.remove(); }, 1000);
  }

  // New ticks, where the page is served
  function follow() {
    const events = new EventSource("events");
    const say = (text) => { $("live").textContent = text; };
    events.addEventListener("tick", async () => {
      const answer = await fetch("data.json", { cache: "no-store" });
      if (!answer.ok) return;
      const given = await answer.json(), kept = state.whole ? [] : [state.from, state.to];
      await load(given);
      for (const [id, markup] of Object.entries(given.parts)) $(id).innerHTML = markup; // escaped by the server
      newest();
      if (!state.keys.length) state.keys = given.drawn;
      zoom(...kept);
      say(page.complete ? DONE : `Live: newest ${when(page.fine.times.at(-1))}, seen ${new Date().toLocaleTimeString()}.`);
    });
    events.onopen = () => say(page.complete ? DONE : "Live: waiting for the next tick.");
    events.onerror = () => say("The connection is lost; trying again.");
  }

  function newest() { // the table of last values ends with the newest tick
    const box = document.querySelector("#last .scroll");
    if (page.keys.length === 1) box.scrollLeft = box.scrollWidth;
  }

  async function start() {
    await load(JSON.parse($("data").textContent));
    state.keys = [...page.drawn];
    $("keys").hidden = page.keyless;
    chips();
    zoom();
    $("from").addEventListener("change", slid);
    $("to").addEventListener("change", slid);
    $("whole").addEventListener("click", () => zoom());
    $("csv").addEventListener("click", save);
    $("print").addEventListener("click", () => window.print());
    for (const [name, open] of [["beforeprint", true], ["afterprint", false]])
      addEventListener(name, () => { if ($("plan")) $("plan").open = open; });
    $("apart").addEventListener("change", (event) => { state.apart = event.target.checked; later(); });
    $("search").addEventListener("input", search);
    $("search").addEventListener("focus", search);
    $("search").addEventListener("blur", () => options(false));
    $("search").addEventListener("keydown", (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (move && found.length) { event.preventDefault(); active = (active + move + found.length) % found.length; options(true); }
      if (event.key === "Enter" && found.length) { event.preventDefault(); pick(found[Math.max(0, active)]); }
      if (event.key === "Escape") options(false);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
    window.weir = { csv, zoom, pick, state, page: () => page };
    clearTimeout(pending);
    newest();
    await render();
    if (document.body.dataset.live !== undefined) follow();
  }
  start().catch((error) => { $("charts").textContent = `The charts cannot be drawn: ${error.message}`; document.body.dataset.failed = error.message; });
})();

"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const whole = (us) => page.period % us === 0;
  function date(tick) {
    const start = page.starts ? page.starts[tick - page.first] : page.start + tick * page.period;
    const at = new Date(start / 1000);
    if (isNaN(at)) return `tick ${tick}`;
    const iso = at.toISOString();
    if (whole(86400e6) && iso.endsWith("T00:00:00.000Z")) return iso.slice(0, 10);
    return iso.slice(0, whole(60e6) ? 16 : whole(1e6) ? 19 : 23).replace("T", " ");
  }
  function number(value, error) {
    const scale = error > 0 ? error : Math.abs(value) / 100;
    const decimals = scale > 0 ? Math.max(0, Math.min(8, 1 - Math.floor(Math.log10(scale)))) : 0;
    const show = (x) => x.toLocaleString("en-US",
      { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace(/^-/, "\u2212");
    return error > 0 ? `${show(value)} \u00b1 ${show(error)}` : show(value);
  }
  function make(name, attributes) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }
  function say(event, lines) {
    tip.replaceChildren();
    lines.forEach((line, i) => {
      const node = document.createElement(i ? "div" : "b");
      node.textContent = line;
      tip.append(node);
    });
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width : event.clientX + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(innerHeight - box.height - 4, event.clientY - box.height / 2))}px`;
  }
  function nearest(ticks, tick) {
    let low = 0, high = ticks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ticks[middle] < tick) low = middle + 1; else high = middle;
    }
    return low > 0 && tick - ticks[low - 1] < ticks[low] - tick ? low - 1 : low;
  }
  function span(tick) {
    return `${date(tick)}, tick ${tick.toLocaleString("en-US")}`;
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const layer = figure.querySelector(".hover");
    const chart = layer.parentNode;
    const [left, right, top, bottom, x0, x1, y0, y1] = data.frame;
    const px = (x) => left + (x - x0) / (x1 - x0) * (right - left);
    const py = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - top);
    const levels = data.levels && Uint8Array.from(atob(data.levels), (c) => c.charCodeAt(0));
    const leave = () => { tip.hidden = true; layer.replaceChildren(); };
    chart.addEventListener("pointerleave", leave);
    chart.addEventListener("pointermove", (event) => {
      const box = chart.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * chart.viewBox.baseVal.width;
      const y = (event.clientY - box.top) / box.height * chart.viewBox.baseVal.height;
      if (x < left - 8 || x > right + 8 || y < top - 8 || y > bottom + 24) return leave();
      const at = nearest(data.ticks, x0 + (x - left) / (right - left) * (x1 - x0));
      const tick = data.ticks[at];
      layer.replaceChildren();
      if (levels) {
        const rows = data.rows.length;
        const row = Math.max(0, Math.min(rows - 1, Math.floor((y - top) / (bottom - top) * rows)));
        const level = levels[row * data.ticks.length + at];
        const height = (bottom - top) / rows;
        const width = Math.max(3, px(tick + 0.5) - px(at ? data.ticks[at - 1] + 0.5 : tick - 0.5));
        layer.append(make("rect", { class: "cell", x: px(tick + 0.5) - width, y: top + row * height, width, height: Math.max(2, height) }));
        const value = data.soft * Math.sinh(level / 254 * Math.asinh(data.top / data.soft));
        say(event, [data.rows[row] || "value", span(tick),
          level === 255 ? "no value" : level === 0 ? "about 0 or less" : `about ${Number(value.toPrecision(2)).toLocaleString("en-US")}${level === 254 ? " or more" : ""}`]);
        return;
      }
      layer.append(make("line", { class: "cross", x1: px(tick), x2: px(tick), y1: top, y2: bottom }));
      const lines = [span(tick)];
      data.series.forEach((one, i) => {
        const value = one.value[at];
        if (value === null) return;
        const inside = Math.max(top, Math.min(bottom, py(value)));
        layer.append(make("circle", { class: `dot spot s${i}`, cx: px(tick), cy: inside, r: 4 }));
        lines.push((one.name ? `${one.name}: ` : "") + number(value, one.half ? one.half[at] : null));
      });
      say(event, lines);
    });
  }
})();

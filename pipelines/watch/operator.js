"use strict";
// Shows how a job fares. All that comes is text, and enters the page as text.
(() => {
  const make = (tag, text, ...inside) => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    node.append(...inside);
    return node;
  };
  const table = (rows) => make("table", "", ...rows.map(([name, value]) => make("tr", "", make("th", name), make("td", value))));
  const events = new EventSource(`events${location.search}`);
  events.onmessage = (event) => {
    const told = JSON.parse(event.data);
    document.getElementById("said").textContent = told.error || `Seen ${new Date().toLocaleTimeString()}.`;
    document.getElementById("jobs").replaceChildren(...told.jobs.map((job) => {
      const alarms = job.alarms.map((text) => make("p", text));
      for (const one of alarms) one.className = "alarm";
      return make("section", "", make("h2", job.name), ...alarms, table(job.lines), make("h3", job.counts.length ? "Counts" : ""), table(job.counts));
    }));
  };
  events.onerror = () => { document.getElementById("said").textContent = "The connection is lost; trying again."; };
})();

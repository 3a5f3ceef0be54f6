"use strict";
(async () => {
  const at = (id) => document.getElementById(id);
  const D = JSON.parse(at("network").textContent);
  const cache = new Map();
  const state = { firm: 0, period: D.periods.length - 1, found: [], chosen: -1 };

  // Text only: no name is ever read as markup.
  const make = (tag, text, options = {}) => {
    const node = document.createElement(tag);
    if (text !== null) node.textContent = text;
    return Object.assign(node, options);
  };

  const number = (w) => {
    if (!Number.isFinite(w)) return "n/a";
    if (w === 0) return D.percent ? "0%" : "0";
    const value = D.percent ? 100 * w : w;
    if (D.percent && value < 1e-3) return "< 0.001%";
    if (Math.abs(value) < 1e-6) return "< 0.000001";
    const digits = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(Math.abs(value)))));
    return value.toFixed(Math.abs(value) >= 10 ? 1 : digits).replace("-", "\u2212") + (D.percent ? "%" : "");
  };

  async function load(period) {
    if (cache.has(period)) return cache.get(period);
    const packed = Uint8Array.from(atob(D.sections[period].packed), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = await new Response(stream).arrayBuffer();
    const n = D.firms.length, section = {};
    let start = 0;
    const take = (name, Kind, length) => {
      section[name] = new Kind(bytes, start, length);
      start += 4 * length;
    };
    take("group", Int32Array, n);
    take("strength", Float32Array, n);
    take("effective", Float32Array, n);
    take("total", Float32Array, n);
    take("degree", Int32Array, n);
    const edges = D.sections[period].edges;
    take("to", Int32Array, edges);
    take("weight", Float32Array, edges);
    if (D.intervals) {
      take("lower", Float32Array, edges);
      take("upper", Float32Array, edges);
    }
    section.from = new Int32Array(edges);
    section.start = new Int32Array(n + 1);
    for (let i = 0; i < n; i++) {
      section.start[i + 1] = section.start[i] + section.degree[i];
      section.from.fill(i, section.start[i], section.start[i + 1]);
    }
    cache.set(period, section);
    return section;
  }

  const groupOf = (section, firm) => (section.group[firm] >= 0 ? D.groups[section.group[firm]] : "");

  const strongest = (section, edges) =>
    edges.sort((a, b) => Math.abs(section.weight[b]) - Math.abs(section.weight[a])).slice(0, D.top_k);

  function bar(node, weight, top, lower, upper) {
    const track = make("div", "", { className: "track" });
    const fill = make("i", "", { className: weight < 0 ? "negative" : "" });
    fill.style.width = `${Math.min(100, (100 * Math.abs(weight)) / top)}%`;
    track.append(fill);
    if (Number.isFinite(lower) && Number.isFinite(upper)) {
      const [near, far] = weight < 0 ? [-upper, -lower] : [lower, upper];
      const whisker = make("b", "");
      whisker.style.left = `${(100 * Math.max(0, near)) / top}%`;
      whisker.style.width = `${Math.max(0.5, (100 * (far - Math.max(0, near))) / top)}%`;
      track.append(whisker);
    }
    node.append(track);
  }

  function firmButton(firm, group) {
    const button = make("button", D.firms[firm], { type: "button", className: "name", title: D.firms[firm] });
    if (group) button.append(" ", make("small", group));
    button.addEventListener("click", () => choose(firm, true));
    return button;
  }

  function showSide(id, section, edges, other, empty) {
    const list = at(id);
    list.replaceChildren();
    const far = (e) => (D.intervals && Number.isFinite(section.upper[e]) ? Math.max(Math.abs(section.lower[e]), Math.abs(section.upper[e])) : 0);
    const top = edges.reduce((most, e) => Math.max(most, Math.abs(section.weight[e]), far(e)), 0) || 1;
    for (const e of edges) {
      const item = make("li", null);
      const value = make("span", number(section.weight[e]), { className: "value" });
      let ends = [NaN, NaN];
      if (D.intervals && Number.isFinite(section.lower[e])) {
        ends = [section.lower[e], section.upper[e]];
        value.append(" ", make("small", `[${number(ends[0])}, ${number(ends[1])}]`));
      }
      item.append(firmButton(other[e], groupOf(section, other[e])), value);
      bar(item, section.weight[e], top, ...ends);
      list.append(item);
    }
    if (!edges.length) list.append(make("li", empty, { className: "soft" }));
  }

  function showFacts(section) {
    const facts = at("facts"), i = state.firm;
    facts.replaceChildren();
    const add = (name, value) => {
      const box = make("div", null);
      box.append(make("dt", name), make("dd", value));
      facts.append(box);
    };
    if (D.group_name && groupOf(section, i)) add(D.group_name, groupOf(section, i));
    if (D.dated) add("Period", D.periods[state.period]);
    if (Number.isFinite(section.strength[i])) {
      let rank = 1, of = 0;
      for (const s of section.strength) {
        if (Number.isFinite(s)) of += 1;
        if (s > section.strength[i]) rank += 1;
      }
      add("Weight received (sum)", section.strength[i].toFixed(2).replace("-", "\u2212"));
      add("Rank by weight received", `${rank} of ${of.toLocaleString("en")}`);
    }
    if (Number.isFinite(section.effective[i])) add("Effective peers (1 / Σ w²)", section.effective[i].toFixed(1));
  }

  function showFirm(section) {
    const i = state.firm;
    at("firm").textContent = D.firms[i];
    showFacts(section);
    const out = [];
    for (let e = section.start[i]; e < section.start[i + 1]; e++) out.push(e);
    const back = [];
    for (let e = 0; e < section.to.length; e++) if (section.to[e] === i) back.push(e);
    const peers = strongest(section, out), followers = strongest(section, back);
    showSide("peers", section, peers, section.to, "None in this period.");
    showSide("followers", section, followers, section.from, "None in this period.");
    const sum = (edges) => edges.reduce((total, e) => total + section.weight[e], 0);
    const rest = (all, shown, text) =>
      !D.signed && all - shown > 0.0005 * all ? `All others: ${text(all - shown)}` : "";
    const added = (w) => `${w.toFixed(2)} of ${section.strength[i].toFixed(2)}`;
    at("peers-rest").textContent = peers.length ? rest(section.total[i], sum(peers), number) : "";
    at("followers-rest").textContent = followers.length ? rest(section.strength[i], sum(followers), added) : "";
  }

  function showShares(id, shares) {
    const list = at(id);
    list.replaceChildren();
    const order = shares.map((w, g) => [w, g]).filter(([w]) => Number.isFinite(w) && w !== 0);
    order.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const top = order.length ? Math.abs(order[0][0]) : 1;
    for (const [w, g] of order.slice(0, 10)) {
      const item = make("li", null);
      item.append(make("span", D.groups[g], { className: "name" }), make("span", number(w), { className: "value" }));
      bar(item, w, top, NaN, NaN);
      list.append(item);
    }
  }

  function showFlows() {
    const flows = D.sections[state.period].flows;
    at("flows").hidden = !flows;
    if (!flows) return;
    const g = Number(at("group").value);
    showShares("flows-out", flows[g].map((w) => (w === null ? NaN : w)));
    showShares("flows-in", flows.map((row) => (row[g] === null ? NaN : row[g])));
    const small = D.groups.length <= 14;
    at("matrix").hidden = !small;
    if (!small) return;
    const table = make("table", null), head = make("tr", null), body = make("tbody", null);
    head.append(make("th", "focal ↓ peers →", { className: "l" }), ...D.groups.map((name) => make("th", name, { scope: "col" })));
    const top = Math.max(...flows.flat().map((w) => Math.abs(w ?? 0))) || 1;
    flows.forEach((row, k) => {
      if (row.every((w) => w === null)) return;
      const line = make("tr", null);
      line.append(make("th", D.groups[k], { className: "l", scope: "row" }));
      for (const w of row) {
        const cell = make("td", w === null ? "" : number(w).replace("%", ""));
        cell.style.setProperty("--share", String(Math.abs(w ?? 0) / top));
        line.append(cell);
      }
      body.append(line);
    });
    const top_row = make("thead", null);
    top_row.append(head);
    table.append(top_row, body);
    at("matrix").replaceChildren(table);
  }

  function showPairs() {
    const pairs = D.sections[state.period].pairs;
    at("one-sided").hidden = !pairs;
    if (!pairs) return;
    at("pairs").replaceChildren(
      ...pairs[at("kind").value].map(([i, j, there, back]) => {
        const line = make("tr", null);
        for (const firm of [i, j]) {
          const cell = make("td", null, { className: "l" });
          cell.append(firmButton(firm, ""));
          line.append(cell);
        }
        line.append(make("td", number(there)), make("td", number(back)));
        return line;
      }),
    );
  }

  let turn = 0;
  async function show() {
    const mine = ++turn;
    const section = await load(state.period);
    if (mine !== turn) return;
    at("period").value = String(state.period);
    at("earlier").disabled = state.period === 0;
    at("later").disabled = state.period === D.periods.length - 1;
    if (D.groups.length && section.group[state.firm] >= 0) at("group").value = String(section.group[state.firm]);
    showFirm(section);
    showFlows();
    showPairs();
    document.documentElement.dataset.ready = "yes";
  }

  // The address names what is seen, so that it can be sent and the back button works.
  function address() {
    const parts = new URLSearchParams({ firm: D.firms[state.firm] });
    if (D.dated) parts.set("period", D.periods[state.period]);
    return `#${parts}`;
  }
  function choose(firm, up) {
    state.firm = firm;
    location.hash = address();
    if (up) at("firm").scrollIntoView({ block: "center" });
    show();
  }
  function move(period) {
    if (period < 0 || period >= D.periods.length) return;
    state.period = period;
    location.hash = address();
    show();
  }
  function read() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const firm = D.firms.indexOf(parts.get("firm")), period = D.periods.indexOf(parts.get("period"));
    if (firm >= 0) state.firm = firm;
    if (period >= 0) state.period = period;
  }

  const search = at("search"), found = at("found");
  const lower = D.firms.map((name) => name.toLowerCase());
  function close() {
    found.hidden = true;
    state.found = [];
    state.chosen = -1;
    search.setAttribute("aria-expanded", "false");
    search.removeAttribute("aria-activedescendant");
  }
  function mark(k) {
    state.chosen = k;
    [...found.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === k)));
    if (k >= 0) {
      search.setAttribute("aria-activedescendant", `found-${k}`);
      found.children[k].scrollIntoView({ block: "nearest" });
    }
  }
  async function look() {
    const wanted = search.value.trim().toLowerCase();
    if (!wanted) return close();
    const section = await load(state.period);
    const scored = [];
    lower.forEach((name, i) => {
      const where = name.indexOf(wanted);
      if (where >= 0) scored.push([name === wanted ? 0 : where === 0 ? 1 : 2, i]);
    });
    scored.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    state.found = scored.slice(0, 12).map(([, i]) => i);
    found.replaceChildren(
      ...state.found.map((i, k) => {
        const item = make("li", null, { id: `found-${k}` });
        item.setAttribute("role", "option");
        item.append(make("span", D.firms[i]), make("span", groupOf(section, i)));
        item.addEventListener("mousedown", (event) => {
          event.preventDefault();
          pick(k);
        });
        return item;
      }),
    );
    if (!state.found.length) found.append(make("li", "No such firm."));
    found.hidden = false;
    search.setAttribute("aria-expanded", "true");
    mark(state.found.length ? 0 : -1);
  }
  function pick(k) {
    const firm = state.found[k];
    search.value = "";
    close();
    if (firm !== undefined) choose(firm, false);
  }

  search.addEventListener("input", look);
  search.addEventListener("blur", close);
  search.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && state.found.length) {
      event.preventDefault();
      mark((state.chosen + step + state.found.length) % state.found.length);
    } else if (event.key === "Escape") close();
    else if (event.key === "Enter" && state.chosen >= 0) {
      event.preventDefault();
      pick(state.chosen);
    }
  });
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("period").addEventListener("change", (event) => move(Number(event.target.value)));
  at("earlier").addEventListener("click", () => move(state.period - 1));
  at("later").addEventListener("click", () => move(state.period + 1));
  at("kind").addEventListener("change", showPairs);
  at("group").addEventListener("change", showFlows);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    } else if (event.key === "[") move(state.period - 1);
    else if (event.key === "]") move(state.period + 1);
  });
  window.addEventListener("hashchange", () => {
    read();
    show();
  });

  at("when").hidden = D.periods.length < 2;
  at("period").append(...D.periods.map((name, t) => make("option", name, { value: String(t) })));
  at("group").append(...D.groups.map((name, g) => make("option", name, { value: String(g) })));
  at("note").textContent = D.note;
  if (D.firms.length) {
    state.firm = D.start;
    read();
    await show();
  } else {
    at("firm").textContent = "This network has no firms.";
    document.documentElement.dataset.ready = "yes";
  }
})();

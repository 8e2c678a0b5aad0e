// The cards of a panel. What is shown comes from the kernel and is always text: nothing of it is read as HTML.

const SAID = {
  approve: "Approve", edit: "Edit", reject: "Reject", respond: "Answer",
  happened: "It happened", rerun: "Run it again", stop: "Stop",
};
const ASKS = {
  reject: "Reason, for the model to read (may be left out)", respond: "The answer", happened: "The result that it had",
};
const SENDS = {
  edit: "Approve as edited", reject: "Reject", respond: "Send the answer", happened: "It happened",
};
const MODES = { value: "a value", null: "null", absent: "left out" };
const MARKS = { running: "→", success: "✓" };
const PATIENCE = 15000; // milliseconds until it is said that no kernel answers
let counted = 0;

function h(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside.filter((one) => one != null)); // a string becomes a text node
  return made;
}

const pointer = (path) => path.map((one) => "/" + String(one).replaceAll("~", "~0").replaceAll("/", "~1")).join("");

// A form. `read(path)` gives what is filled in, as filled.py reads it, and remembers the path for what is wrong with it.
// `call(name)` gives a field its name for those who hear it: an item of a list has no label, and another number later.

function field(made, named = made.label) {
  const id = `scallion-field-${++counted}`;
  const body = made.kind === "object" ? object(made) : made.kind === "array" ? array(made) : leaf(made, id);
  const wrong = h("div", { class: "scallion-wrong", role: "alert", id: `${id}-wrong` });
  const modes = made.modes.length > 1 ? choice(made.modes.map((one) => MODES[one]), made.modes.indexOf(made.mode)) : null;
  const mode = () => (modes ? made.modes[modes.selectedIndex] : "value");
  modes?.setAttribute("class", "scallion-mode");
  modes?.addEventListener("change", () => { body.node.hidden = mode() !== "value"; });
  body.node.hidden = mode() !== "value";
  const label = made.label ? h("label", { for: body.input ? id : null }, made.label) : null;
  const told = made.told ? h("small", { id: `${id}-told` }, made.told) : null;
  (body.input ?? body.node).setAttribute("aria-describedby", [told?.id, wrong.id].filter(Boolean).join(" "));
  const node = h("div", { class: `scallion-field scallion-${made.kind}` }, h("div", {}, label, modes, told), body.node, wrong);
  const call = (name) => {
    if (!label || !body.input) (body.input ?? body.node).setAttribute("aria-label", name);
    modes?.setAttribute("aria-label", `${name}: given or not`);
    body.call?.(name);
  };
  call(named);
  let at = null;
  return {
    node,
    call,
    read(path) {
      at = pointer(path);
      return mode() === "value" ? body.read(path) : { mode: mode() };
    },
    show(problems) {
      wrong.textContent = problems[at] ?? "";
      body.input?.setAttribute("aria-invalid", String(at in problems));
      const known = body.show?.(problems) ?? [];
      return [at, ...known];
    },
  };
}

function choice(options, chosen) {
  const select = h("select", {}, ...options.map((one) => h("option", {}, one)));
  select.selectedIndex = chosen ?? -1;
  return select;
}

function leaf(made, id) {
  let touched = false;
  const input = {
    boolean: () => h("input", { type: "checkbox" }),
    choice: () => choice(made.choices, made.chosen),
    date: () => h("input", { type: "date" }),
    integer: () => h("input", { type: "text", inputmode: "numeric" }),
    number: () => h("input", { type: "text", inputmode: "decimal" }),
  }[made.kind]?.() ?? h("textarea", { rows: Math.min(12, made.text.split("\n").length), spellcheck: "false" });
  input.id = id;
  if (made.kind === "boolean") input.checked = made.text === "true";
  else if (made.kind !== "choice") input.value = made.text;
  for (const event of ["input", "change"]) input.addEventListener(event, () => { touched = true; });
  const filled = { boolean: () => ({ on: input.checked }), choice: () => ({ choice: input.selectedIndex }) }[made.kind];
  const isKept = () => made.given && made.mode === "value" && !touched; // what was null or left out is filled in here
  const read = () => (isKept() ? { keep: true } : filled ? filled() : { text: input.value });
  return { node: input, input, read };
}

function object(made) {
  const members = made.fields.map(([name, one]) => [name, field(one)]);
  return {
    node: h("div", { class: "scallion-inside", role: "group" }, ...members.map(([, one]) => one.node)),
    read: (path) => ({ fields: Object.fromEntries(members.map(([name, one]) => [name, one.read([...path, name])])) }),
    show: (problems) => members.flatMap(([, one]) => one.show(problems)),
  };
}

function array(made) {
  let rows = [];
  let called = made.label;
  const list = h("div", {});
  const more = h("button", { type: "button", onclick: () => { add(made.item, null); call(called); } }, "Add");
  const add = (one, from) => {
    const row = { from, field: field(one) };
    const gone = () => { rows = rows.filter((other) => other !== row); row.node.remove(); call(called); more.focus(); };
    row.button = h("button", { type: "button", onclick: gone }, "Remove");
    row.node = h("div", { class: "scallion-row" }, row.field.node, row.button);
    rows.push(row);
    list.append(row.node);
  };
  const call = (name) => {
    called = name;
    more.setAttribute("aria-label", `Add to ${name}`);
    rows.forEach((row, n) => {
      row.field.call(`${name} ${n + 1}`);
      row.button.setAttribute("aria-label", `Remove ${name} ${n + 1}`);
    });
  };
  made.items.forEach(add);
  return {
    node: h("div", { class: "scallion-inside", role: "group" }, list, more),
    call,
    read: (path) => ({ items: rows.map((row, n) => ({ from: row.from, node: row.field.read([...path, n]) })) }),
    show: (problems) => rows.flatMap((row) => row.field.show(problems)),
  };
}

// One card. It is drawn anew when it has changed; what is said about a click is shown without touching what was typed.

function card(part, send) {
  const shown = part.card;
  const inside = h("div", {});
  const told = h("div", { class: "scallion-told", role: "alert" });
  const buttons = h("div", { class: "scallion-buttons" });
  let form = null;
  let nonce = null;

  const busy = (on) => {
    for (const one of node.querySelectorAll("button, input, select, textarea")) one.disabled = on;
    node.setAttribute("aria-busy", String(on));
  };
  const decide = (kind, more) => {
    nonce = `${Date.now()}-${++counted}`;
    busy(true);
    send({ do: "decide", key: part.key, seen: part.seen, kind, nonce, ...more });
  };
  const close = () => {
    form = null;
    inside.replaceChildren();
    buttons.hidden = false;
    buttons.querySelector("button")?.focus();
  };
  const open = (kind) => {
    if (!(kind in SENDS)) return decide(kind, {});
    const made = shown.forms[kind];
    const text = made ? null : h("textarea", { rows: 2, "aria-label": ASKS[kind], placeholder: ASKS[kind] });
    form = made ? field(made, kind === "edit" ? "arguments" : "answer") : null;
    const submit = (event) => {
      event.preventDefault();
      decide(kind, form ? { filled: form.read([]) } : { text: text.value });
    };
    inside.replaceChildren(h("form", { onsubmit: submit, novalidate: true }, form?.node ?? text,
      h("button", { type: "submit", class: "scallion-first" }, SENDS[kind]),
      h("button", { type: "button", onclick: close }, "Back")));
    buttons.hidden = true;
    inside.querySelector("input, textarea, select")?.focus();
  };

  buttons.append(...shown.allowed.map((kind) =>
    h("button", { type: "button", class: `scallion-${kind}`, onclick: () => open(kind) }, SAID[kind] ?? kind)));
  const node = h("section", { class: `scallion-card scallion-is-${shown.status}`, "aria-label": shown.title },
    h("header", {}, h("strong", {}, shown.title), h("span", { class: "scallion-status" }, shown.status)),
    shown.asks ? h("p", {}, shown.asks) : null,
    shown.answer !== null ? h("blockquote", {}, shown.answer) : null,
    shown.args !== null ? h("pre", {}, shown.args) : null,
    h("small", {}, shown.facts.join(" · ")),
    shown.verdict ? h("p", { class: "scallion-verdict" }, shown.verdict) : null,
    told, buttons, inside);
  return {
    node,
    seen: part.seen,
    update(now) {
      if (nonce !== null && now.heard === nonce) {
        nonce = null;
        busy(false);
      }
      const placed = form ? form.show(now.problems) : [];
      const rest = Object.entries(now.problems).filter(([at]) => !placed.includes(at));
      told.textContent = [now.told, ...rest.map(([at, rule]) => `${at} ${rule}`.trim())].filter(Boolean).join("; ");
      node.querySelector("[aria-invalid=true]")?.focus();
    },
  };
}

function trail(entries) {
  return h("div", { class: "scallion-trail" }, ...entries.map(({ kind, text, state }) => {
    const mark = kind === "tool" ? `${MARKS[state] ?? "✗"} ` : kind === "note" ? "· " : "";
    return h("div", { class: `scallion-${kind}` }, mark + text);
  }));
}

function render({ model, el }) {
  const list = h("div", {});
  const live = h("div", { "aria-live": "polite" });
  const says = h("span", { role: "status" });
  const button = (label, message) => h("button", { type: "button", onclick: () => send(message) }, label);
  const goOn = button("Go on", { do: "go on" });
  const stop = button("Stop", { do: "stop" });
  const again = button("Look again", { do: "refresh" });
  const cards = new Map();
  let timer = null;

  const send = (message) => {
    model.send(message);
    clearTimeout(timer);
    timer = setTimeout(() => { says.textContent = "no answer: if the kernel was restarted, run this cell again"; }, PATIENCE);
  };
  const cardFor = (part) => {
    const known = cards.get(part.key);
    const one = known?.seen === part.seen ? known : card(part, send);
    cards.set(part.key, one);
    one.update(part);
    return one.node;
  };
  const draw = () => {
    clearTimeout(timer);
    const nodes = model.get("parts").map((part) => (part.trail ? trail(part.trail) : cardFor(part)));
    // Whoever types in a card keeps the cursor: nodes that are there already are not moved.
    nodes.forEach((node, n) => { if (list.childNodes[n] !== node) list.replaceChild(node, list.childNodes[n] ?? list.appendChild(h("i"))); });
    while (list.childNodes.length > nodes.length) list.lastChild.remove();
  };
  const drawTrail = () => live.replaceChildren(trail(model.get("trail")));
  const drawState = () => {
    clearTimeout(timer);
    const { phase, told, goes_on } = model.get("state");
    says.textContent = told;
    panel.dataset.phase = phase;
    goOn.hidden = !goes_on;
    stop.hidden = phase !== "running";
    again.hidden = phase === "running";
  };

  // What a saved notebook shows instead is hidden as long as this is here.
  const hides = h("style", {}, `#${CSS.escape(model.get("token"))} { display: none }`);
  const panel = h("div", { class: "scallion-panel" }, hides, list, live, h("footer", {}, says, goOn, stop, again));
  const drawn = { "change:parts": draw, "change:trail": drawTrail, "change:state": drawState, "change:answers": drawState };
  for (const [event, drawing] of Object.entries(drawn)) {
    drawing();
    model.on(event, drawing);
  }
  el.append(panel);
  return () => {
    clearTimeout(timer);
    for (const [event, drawing] of Object.entries(drawn)) model.off(event, drawing);
  };
}

export default { render };

// The page: what was typed becomes a request, what arrives is shown at once. Model text only ever becomes text nodes.

import { Origins, readEvents, readRefusal, tokenBytes } from "./answer.js";

const element = (id) => document.getElementById(id);
const messages = [];
let server = null;
let running = null;

async function connect() {
  try {
    const response = await fetch("/health", { headers: authorization() });
    const report = await response.json();
    if (report.error) throw new Error(report.error.message);
    server = report.model ? report : null;
    element("server").textContent = server
      ? `${server.model}, ${server.capabilities.architecture}, ${server.capabilities.exactness}, ${report.status}`
      : `the server is ${report.status}; it asks for an API key`;
    if (server) showModes(server.capabilities.strategies);
  } catch (problem) {
    server = null;
    element("server").textContent = `no connection: ${problem.message}`;
  }
}

function showModes(strategies) {
  const chosen = element("mode").value;
  const options = strategies.map((strategy) => {
    const option = new Option(strategy.name, strategy.name);
    option.disabled = strategy.status !== "available";
    option.title = strategy.detail;
    return option;
  });
  element("mode").replaceChildren(new Option("the server's choice", ""), ...options);
  element("mode").value = chosen;
}

function authorization() {
  const key = element("key").value.trim();
  return key ? { authorization: `Bearer ${key}` } : {};
}

function request() {
  const chat = server.chat;
  const body = {
    model: server.model,
    stream: true,
    stream_options: { include_usage: true },
    temperature: element("temperature").valueAsNumber || 0,
    max_tokens: element("max-tokens").valueAsNumber || 200,
    logprobs: chat ? true : 0,
    timings: true,
  };
  if (chat) body.messages = messages;
  else body.prompt = messages.at(-1).content;
  if (element("mode").value) body.spec_mode = element("mode").value;
  const seed = element("seed").value.trim();
  let json = JSON.stringify(body);
  if (/^[0-9]+$/.test(seed)) json = `${json.slice(0, -1)},"seed":${BigInt(seed)}}`; // 64 bits, more than a double holds
  return fetch(chat ? "/v1/chat/completions" : "/v1/completions", {
    method: "POST",
    headers: { "content-type": "application/json", ...authorization() },
    body: json,
    signal: running.signal,
  });
}

async function send(text) {
  showError("");
  if (!server) await connect();
  if (!server) return showError(element("server").textContent);
  running = new AbortController();
  setRunning(true);
  messages.push({ role: "user", content: text });
  const question = addMessage("You");
  question.append(text);
  const answer = addMessage("Model");
  let written = "";
  let refused = false;
  const began = performance.now();
  try {
    const response = await request();
    refused = !response.ok;
    if (refused) throw new Error(await readRefusal(response));
    await show(response.body, answer, began, (part) => { written += part; });
    if (!written) addEnd(answer, "the answer is empty");
  } catch (problem) {
    if (running.signal.aborted) addEnd(answer, "stopped");
    else showError(problem.message);
  }
  if (refused) {
    messages.pop();
    question.remove();
    answer.remove();
    element("prompt").value ||= text;
  } else {
    messages.push({ role: "assistant", content: written });
  }
  running = null;
  setRunning(false);
}

async function show(body, answer, began, onText) {
  const origins = new Origins();
  const count = { tokens: 0, passes: 0, drafted: 0, accepted: 0, began, first: 0, firstTokens: 0 };
  for await (const chunk of readEvents(body)) {
    const choice = chunk.choices?.[0];
    if (choice) {
      const tokens = tokenBytes(choice);
      const round = chunk.verispec;
      if (round && tokens.length) countRound(count, round, tokens.length);
      origins.expect(tokens, round?.accepted ?? 0);
      const text = choice.delta?.content ?? choice.text ?? "";
      if (text) {
        onText(text);
        append(answer, origins.split(text));
      }
      if (choice.finish_reason && choice.finish_reason !== "stop") {
        addEnd(answer, `ended by ${(choice.finish_detail ?? choice.finish_reason).replaceAll("_", " ")}`);
      }
    }
    if (chunk.timings) showFinal(count, chunk.timings);
  }
}

function append(answer, parts) {
  const log = element("conversation");
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  for (const [text, kind] of parts) {
    const last = answer.lastElementChild;
    if (last?.className === kind) last.append(text);
    else {
      const span = document.createElement("span");
      span.className = kind;
      span.append(text);
      answer.append(span);
    }
  }
  if (follows) log.scrollTop = log.scrollHeight;
}

function countRound(count, round, tokens) {
  const now = performance.now();
  count.tokens += tokens;
  count.passes += 1;
  count.drafted += round.drafted;
  count.accepted += round.accepted;
  if (!count.first) {
    count.first = now;
    count.firstTokens = tokens;
    set("first", `${Math.round(now - count.began)} ms`);
  }
  const seconds = (now - count.first) / 1000;
  set("tokens", count.tokens);
  set("passes", count.passes);
  set("per-pass", (count.tokens / count.passes).toFixed(2));
  set("accepted", `${count.accepted} / ${count.drafted}`);
  if (seconds > 0) set("rate", ((count.tokens - count.firstTokens) / seconds).toFixed(1));
}

// The server's own clocks, where it gives them, take the place of this page's.
function showFinal(count, timings) {
  if (timings.tokens_per_second) set("rate", timings.tokens_per_second.toFixed(1));
  set("first", `${Math.round(1000 * timings.first_token_seconds)} ms`);
  if (timings.passes) {
    set("passes", timings.passes);
    set("per-pass", (count.tokens / timings.passes).toFixed(2));
  }
}

const set = (id, value) => { element(id).textContent = value; };

function addMessage(who) {
  const message = document.createElement("p");
  message.className = "message";
  const name = document.createElement("span");
  name.className = "who";
  name.append(who);
  message.append(name);
  element("conversation").append(message);
  element("conversation").scrollTop = element("conversation").scrollHeight;
  return message;
}

function addEnd(answer, text) {
  const end = document.createElement("span");
  end.className = "end";
  end.append(text);
  answer.append(end);
}

function showError(text) {
  element("error").textContent = text;
  element("error").hidden = !text;
}

function setRunning(is) {
  element("send").disabled = is;
  element("stop").disabled = !is;
  element("clear").disabled = is;
  element("conversation").setAttribute("aria-busy", String(is));
  if (!is) element("prompt").focus();
}

element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = element("prompt").value.trim();
  if (!text || running) return;
  element("prompt").value = "";
  send(text);
});
element("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    element("form").requestSubmit();
  }
});
element("stop").addEventListener("click", () => running?.abort());
element("clear").addEventListener("click", () => {
  messages.length = 0;
  element("conversation").replaceChildren();
  showError("");
  for (const id of ["tokens", "passes", "per-pass", "accepted", "rate", "first"]) set(id, "–");
});
element("key").addEventListener("change", connect);
connect();

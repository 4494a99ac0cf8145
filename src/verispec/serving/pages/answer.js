// One answer as it arrives: server-sent events read, tokens matched with the text they gave.

const encoder = new TextEncoder();

// The JSON objects of an event stream. Throws when it ends before [DONE] or carries an error.
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection ended before the answer did");
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (!data.length) continue;
      if (data.join("\n") === "[DONE]") return;
      const chunk = JSON.parse(data.join("\n"));
      if (chunk.error) throw new Error(chunk.error.message);
      yield chunk;
    }
  }
}

// What an answer refused by the server says; never raises.
export async function readRefusal(response) {
  try {
    return `${response.status}: ${(await response.json()).error.message}`;
  } catch {
    return `${response.status}: ${response.statusText || "the server gave no reason"}`;
  }
}

// Says which part of the text came from a draft. Text may arrive later than its token (half a character, a possible
// stop string), so tokens wait, with their bytes, until text of that length has come.
export class Origins {
  constructor() {
    this.waiting = [];
    this.kind = "own";
  }

  // Tokens of one round: the first `accepted` of them had been drafted.
  expect(tokens, accepted) {
    tokens.forEach((bytes, index) => this.waiting.push({ left: bytes.length, kind: index < accepted ? "drafted" : "own" }));
  }

  // [[text, kind], ...] of newly arrived text; a character belongs to the token that completes it.
  split(text) {
    const parts = [];
    for (const character of text) {
      this.take(encoder.encode(character).length);
      const last = parts.at(-1);
      if (last && last[1] === this.kind) last[0] += character;
      else parts.push([character, this.kind]);
    }
    return parts;
  }

  take(length) {
    while (length > 0 && this.waiting.length) {
      const first = this.waiting[0];
      const taken = Math.min(first.left, length);
      first.left -= taken;
      length -= taken;
      if (taken > 0) this.kind = first.kind;
      if (first.left === 0) this.waiting.shift();
    }
  }
}

// The bytes of a chunk's tokens, from the log-probabilities of chat (`content`) or of text completions (`tokens`).
export function tokenBytes(choice) {
  const logprobs = choice.logprobs;
  if (!logprobs) return [];
  if (logprobs.content) return logprobs.content.map((token) => token.bytes ?? encoder.encode(token.token));
  return (logprobs.tokens ?? []).map((token) =>
    // part of a character is written bytes:\xe2\x80
    token.startsWith("bytes:\\x") ? token.slice(8).split("\\x").map((byte) => parseInt(byte, 16)) : encoder.encode(token));
}

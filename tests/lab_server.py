"""A small OpenAI-compatible server for tests of the lab, started as a process of its own: standard library only.

Its answers are a fixed sequence of words that depends on the prompt, ``--rows`` tokens a pass, a pass every ``--pace``
milliseconds. It misbehaves where ``--fault`` says so, or in one answer whose prompt ends in ``!`` and a fault.
"""

import argparse
import json
import os
import re
import signal
import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = (
    "dies", "dies-at-start", "hangs", "garbage", "not-json", "cut", "error-event", "refuses", "cached", "cached-unsaid",
    "no-usage", "wrong-canaries", "short", "chunks", "bundles", "reasoning", "drifts", "used", "wrong-usage", "totals",
    "logprobs", "repeats", "drips",
)  # fmt: skip

arguments = argparse.ArgumentParser()
arguments.add_argument("--model")
arguments.add_argument("--host")
arguments.add_argument("--port", type=int)
arguments.add_argument("--rows", type=int, default=1)
arguments.add_argument("--pace", type=float, default=0.5)
arguments.add_argument("--fault", choices=FAULTS)
arguments.add_argument(
    "--at", type=int, default=1, help="the prompt, counted from 0, at which the fault shows"
)
arguments.add_argument("--unroll", type=int, default=0, help="comes back resolved")
arguments.add_argument("--p-min", type=float, default=0.0, help="comes back resolved and is read by nothing")
arguments.add_argument("--draft", type=int, default=0, help="comes back nowhere; drafts are counted")
arguments.add_argument("--seed", type=int, default=0)
arguments.add_argument("--reuse-history", action="store_true")
arguments.add_argument("--mistakes", type=int, default=0, help="sums that this divides come out wrong")
arguments.add_argument(
    "--style", default="plain", help="in any other, an answer lacks the form that was asked for"
)
given = arguments.parse_args()

counters = {"generated": 0, "prompts": 0, "drafted": 0}
seen = set()
KERNEL = os.environ.get("LAB_TEST_KERNEL", "plain")
EXPECTED = {
    "JSON": '{"name": "Ada", "age": 36}', "ascending": "1, 2, 3", "2 + 3": "5",
    "function": "```python\ndef add(a, b):\n    return a + b\n```",
}  # fmt: skip


def words(prompt, count):
    state = zlib.crc32(f"{prompt}{given.seed}".encode())
    if given.fault == "drifts":
        state += int(time.time() * 1e6)
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        yield state % 1000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/metrics":
            text = "".join(f'lab:{name}_total{{engine="0"}} {value}\n' for name, value in counters.items())
            self.answer(text.encode())
        elif self.path == "/v1/models":
            self.answer(json.dumps({"data": [{"id": "tiny"}]}).encode())
        elif self.path == "/info":
            options = {
                "unroll": given.unroll,
                "p_min": given.p_min,
                "kernel": KERNEL,
                "rows": given.rows,
                "mistakes": given.mistakes,
                "style": given.style,
            }
            info = {
                "version": "1.0",
                "weights": "abc",
                "template": "t",
                "model": given.model,
                "options": options,
            }
            self.answer(json.dumps(info).encode())
        else:
            self.answer(b"{}")

    def answer(self, content, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        canary = next((answer for mark, answer in EXPECTED.items() if mark in prompt), None)
        number = counters["prompts"]
        if canary is None:
            counters["prompts"] += 1
        if canary is None and (asked := re.search(r"What is (\d+) \+ (\d+)\?", prompt)):
            return self.solve(int(asked[1]) + int(asked[2]), body["max_tokens"])
        self.fault = given.fault or prompt.partition("!")[2]
        fault = self.fault if canary is None and (number == given.at or not given.fault) else None
        if fault == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "refuses":
            return self.answer(b'{"error": {"message": "no"}}', 400)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.known = False
        if canary is not None:
            said = "7" if self.fault == "wrong-canaries" else canary
            self.say({"content": said}, None, [1, 2, 3])
            return self.end(3, "stop", 1)
        return self.write_answer(body, prompt, fault)

    def solve(self, total, cap):
        """A sum in words, a token a word, cut off at the cap."""
        total += bool(given.mistakes) and total % given.mistakes == 0
        said = f"Adding gives \nAnswer: {total}" if given.style == "plain" else f"That makes {total} in all."
        pieces = re.findall(r"\S+\s*", said)
        self.fault, self.known, self.close_connection = None, False, True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces[:cap]:
            self.say({"content": piece}, None, [zlib.crc32(piece.encode()) % 1000])
        return self.end(len(pieces[:cap]), "stop" if len(pieces) <= cap else "length", len(pieces[:cap]))

    def write_answer(self, body, prompt, fault):
        """A prompt that was asked before is found in the cache, and its first token comes at once."""
        for _ in range(40 if self.fault == "drips" else 0):
            self.wfile.write(b": still here\n\n")
            time.sleep(0.02)
        self.known = self.fault == "cached" or (prompt in seen and self.fault == "repeats")
        seen.add(prompt)
        time.sleep(0.4 if self.fault == "repeats" and not self.known else 0)
        cap = 50 if self.fault == "short" else body["max_tokens"]
        ids = list(words(prompt, cap))
        self.say({"role": "assistant", "content": ""})
        passes = 0
        rows = 4 if self.fault in ("bundles", "totals", "logprobs") else given.rows
        for start in range(0, cap, rows):
            time.sleep(given.pace / 1000)
            if start >= cap // 2 and fault in ("hangs", "garbage", "not-json", "cut", "error-event"):
                if fault == "hangs":
                    time.sleep(60)
                elif fault == "garbage":
                    self.wfile.write(b"\x00\xff<html>\n\n")
                elif fault == "not-json":
                    self.wfile.write(b"data: {nonsense\n\n")
                elif fault == "error-event":
                    self.wfile.write(b'data: {"error": {"message": "out of memory"}}\n\n')
                return None
            piece = ids[start : start + rows]
            passes += 1
            text = "".join(f"w{one} " for one in piece)
            field = "reasoning_content" if self.fault == "reasoning" and start < cap // 2 else "content"
            if self.fault == "totals":
                self.say({field: text}, timings={"predicted_n": start + len(piece)})
            elif self.fault == "logprobs":
                self.say({field: text}, logprobs={"content": [{"token": "w", "logprob": 0.0}] * len(piece)})
            else:
                self.say({field: text}, None, None if self.fault in ("chunks", "bundles") else piece)
        counters["generated"] += cap
        counters["drafted"] += given.draft * passes
        return self.end(cap, "length", passes)

    def say(self, delta, finish=None, ids=None, logprobs=None, timings=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        choice |= {} if ids is None else {"token_ids": ids}
        choice |= {} if logprobs is None else {"logprobs": logprobs}
        self.event({"choices": [choice], **({} if timings is None else {"timings": timings})})

    def end(self, tokens, finish, passes):
        self.say({}, finish)
        cached = {} if self.fault == "cached-unsaid" else {"cached_tokens": 9 * self.known}
        said = tokens + 5 * (self.fault == "wrong-usage")
        usage = {"prompt_tokens": 9, "completion_tokens": said, "prompt_tokens_details": cached}
        drafted = given.draft * passes
        timings = {
            "passes": passes,
            "drafted": drafted,
            "accepted": tokens - passes,
            "pass_seconds": 0.001 * passes,
        }
        if self.fault != "no-usage":
            self.event({"choices": [], "usage": usage, "timings": timings})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, content):
        self.wfile.write(b"data: " + json.dumps(content).encode() + b"\n\n")


if __name__ == "__main__":
    if given.fault == "dies-at-start":
        sys.exit("no such kernel")
    if given.fault == "used":
        counters["generated"] = 400
    ThreadingHTTPServer((given.host, given.port), Handler).serve_forever()

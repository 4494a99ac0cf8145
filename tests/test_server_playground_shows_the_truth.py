"""The page at ``/`` in a real browser: it shows what the server sent, counts it right, and says what goes wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from local_servers import wait_until
from verispec.engine.model import Model
from whole_server import WholeServer, whole_server

KEY = "the-key-12345"
COPY = "Repeat exactly: one two three four five one two three four five one two three four five"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "expected the package chromium (make browser installs it)"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def server(smollm2: Model) -> Iterator[WholeServer]:
    with whole_server(smollm2, spec_mode="suffix", spec_draft_policy="fixed") as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page; the test fails when its console reports an error, such as a broken content policy."""
    context = browser.new_context()
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if is_problem(message) else None)
    yield opened
    context.close()
    assert problems == []


def is_problem(message: ConsoleMessage) -> bool:
    """Chromium reports refused requests too; the page shows those."""
    return message.type == "error" and "Failed to load resource" not in message.text


def ask(page: Page, text: str, most: int = 40) -> None:
    page.get_by_label("Most tokens").fill(str(most))
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def finished(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop")).to_be_disabled(timeout=60_000)


def spans(page: Page) -> list[tuple[str, str]]:
    """(class, text) of the coloured parts of the last answer."""
    script = "parts => parts.map(part => [part.className, part.textContent])"
    found = page.locator(".message").last.locator(".drafted, .own").evaluate_all(script)
    return [(kind, text) for kind, text in found]


def direct(server: WholeServer, most: int = 40, **parameters: Any) -> dict[str, Any]:
    """The same question without the page."""
    body = {"model": "smollm2-135m", "messages": [{"role": "user", "content": COPY}], "temperature": 0}
    with server.client() as client:
        response = client.post(
            "/v1/chat/completions",
            json={**body, "max_tokens": most, "timings": True, "logprobs": True, **parameters},
        )
    answer: dict[str, Any] = response.json()
    return answer


def test_the_text_is_the_servers_and_the_numbers_are_its_own(page: Page, server: WholeServer) -> None:
    expected = direct(server)
    page.goto(server.url)
    expect(page.locator("#server")).to_contain_text("smollm2-135m, llama, exact, ok")
    with page.expect_response("**/v1/chat/completions") as responses:
        ask(page, COPY)
    finished(page)
    clocks = json.loads(responses.value.text().split("data: ")[-2])["timings"]
    shown = spans(page)
    assert "".join(text for _, text in shown) == expected["choices"][0]["message"]["content"]
    timings = expected["timings"]
    assert timings["accepted"] > 0
    assert page.locator("#accepted").text_content() == f"{timings['accepted']} / {timings['drafted']}"
    assert page.locator("#passes").text_content() == str(timings["passes"])
    assert page.locator("#tokens").text_content() == str(expected["usage"]["completion_tokens"])
    assert float(page.locator("#per-pass").text_content() or 0) > 1
    assert page.locator("#rate").text_content() == f"{clocks['tokens_per_second']:.1f}"
    assert page.locator("#first").text_content() == f"{round(1000 * clocks['first_token_seconds'])} ms"


def test_colours_tell_which_tokens_were_drafted(page: Page, server: WholeServer) -> None:
    page.goto(server.url)
    ask(page, COPY)
    finished(page)
    with (
        server.client() as client,
        client.stream(
            "POST",
            "/v1/chat/completions",
            json={
                "model": "smollm2-135m",
                "messages": [{"role": "user", "content": COPY}],
                "temperature": 0,
                "max_tokens": 40,
                "logprobs": True,
                "timings": True,
                "stream": True,
            },
        ) as response,
    ):
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    drafted = ""
    for event in events:
        if "verispec" in event:
            tokens = event["choices"][0]["logprobs"]["content"][: event["verispec"]["accepted"]]
            drafted += "".join(bytes(token["bytes"]).decode() for token in tokens)
    assert drafted
    assert "".join(text for kind, text in spans(page) if kind == "drafted") == drafted


def test_without_drafting_every_token_is_the_targets_own(page: Page, server: WholeServer) -> None:
    page.goto(server.url)
    page.get_by_label("Drafting").select_option("off")
    ask(page, COPY)
    finished(page)
    assert {kind for kind, _ in spans(page)} == {"own"}
    assert page.locator("#accepted").text_content() == "0 / 0"
    assert page.locator("#per-pass").text_content() == "1.00"


def test_strategies_that_cannot_run_cannot_be_chosen(page: Page, server: WholeServer) -> None:
    page.goto(server.url)
    option = page.get_by_label("Drafting").locator("option", has_text="dflash")
    expect(option).to_be_disabled()
    for available in ("suffix", "eagle3"):
        expect(page.get_by_label("Drafting").locator("option", has_text=available)).to_be_enabled()


def test_stop_stops_the_server_too(page: Page, server: WholeServer) -> None:
    page.goto(server.url)
    ask(page, "Write a very long story about the sea.", most=900)
    expect(page.locator(".message .own").first).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Stop").click()
    finished(page)
    expect(page.locator(".message").last).to_contain_text("stopped")
    assert spans(page)
    with server.client() as client:
        wait_until(lambda: client.get("/health").json()["requests"] == {"running": 0, "waiting": 0})


def test_a_conversation_goes_on_and_begins_anew(page: Page, server: WholeServer) -> None:
    sent: list[Any] = []
    page.on(
        "request", lambda request: sent.append(request.post_data_json) if request.method == "POST" else None
    )
    page.goto(server.url)
    for text in ("Hello", "And again"):
        ask(page, text, most=8)
        finished(page)
    assert [message["role"] for message in sent[1]["messages"]] == ["user", "assistant", "user"]
    page.get_by_role("button", name="New conversation").click()
    ask(page, "Anew", most=8)
    finished(page)
    assert sent[2]["messages"] == [{"role": "user", "content": "Anew"}]


def test_a_seed_of_64_bits_arrives_whole(page: Page, server: WholeServer) -> None:
    sent: list[str] = []
    page.on(
        "request", lambda request: sent.append(request.post_data or "") if request.method == "POST" else None
    )
    page.goto(server.url)
    page.get_by_label("Seed").fill("18446744073709551615")
    page.get_by_label("Temperature").fill("0.7")
    ask(page, "Hello", most=4)
    finished(page)
    assert json.loads(sent[0])["seed"] == 2**64 - 1
    assert json.loads(sent[0])["temperature"] == 0.7
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_key_is_asked_for_and_then_used(page: Page, smollm2: Model) -> None:
    with whole_server(smollm2, (KEY,)) as guarded:
        page.goto(guarded.url)
        expect(page.locator("#server")).to_contain_text("asks for an API key")
        ask(page, "Hello", most=4)
        expect(page.get_by_role("alert")).to_contain_text("API key")
        page.get_by_label("API key").fill("wrong-key-12345")
        ask(page, "Hello", most=4)
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("API key").fill(KEY)
        page.get_by_label("API key").blur()
        expect(page.locator("#server")).to_contain_text("smollm2-135m")
        ask(page, "Hello", most=4)
        finished(page)
        expect(page.get_by_role("alert")).to_be_hidden()
        assert spans(page)


def test_a_refusal_is_shown_in_the_servers_words_and_the_question_comes_back(
    page: Page, server: WholeServer
) -> None:
    page.goto(server.url)
    expect(page.locator("#server")).to_contain_text("smollm2")
    ask(page, "word " * 3000)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("400")
    expect(alert).to_contain_text("context")
    assert page.get_by_label("Message").input_value().startswith("word word")
    assert page.locator(".message").count() == 0


def stream(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> dict[str, Any]:
    """An answer for ``route.fulfill``."""
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return {"status": 200, "content_type": "text/event-stream", "body": events + end}


def piece(text: str) -> dict[str, Any]:
    token = {"token": text, "bytes": list(text.encode()), "logprob": 0, "top_logprobs": []}
    choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [token]}, "finish_reason": None}
    return {"choices": [choice], "verispec": {"drafted": 0, "accepted": 0}}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (stream(piece("Half"), end=""), "the connection ended before the answer did"),
        (stream(piece("Half"), {"error": {"message": "shut down"}}), "shut down"),
        ({"status": 502, "body": "<html>Bad gateway</html>"}, "502"),
    ],
)
def test_an_answer_that_breaks_off_says_so(
    page: Page, server: WholeServer, answer: dict[str, Any], says: str
) -> None:
    page.route("**/v1/chat/completions", lambda route: route.fulfill(**answer))
    page.goto(server.url)
    ask(page, "Hello")
    expect(page.get_by_role("alert")).to_contain_text(says)


def test_text_of_a_model_is_text_whatever_it_says(page: Page, server: WholeServer) -> None:
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>&amp;'

    def answer(route: Route) -> None:
        route.fulfill(**stream(piece(evil)))

    page.route("**/v1/chat/completions", answer)
    page.goto(server.url)
    ask(page, evil)
    finished(page)
    assert spans(page) == [("own", evil)]
    assert page.locator(".message img, .message script").count() == 0
    assert page.title() == "verispec playground"


def test_the_page_asks_nothing_of_any_other_server(page: Page, server: WholeServer) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.url)
    ask(page, "Hello", most=4)
    finished(page)
    assert len(asked) >= 5
    assert all(url.startswith(server.url) for url in asked)


def test_it_fits_a_phone_and_is_used_by_keyboard_alone(browser: Browser, server: WholeServer) -> None:
    with browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#server")).to_contain_text("smollm2-135m")
        page.get_by_label("Message").focus()
        page.keyboard.type("Hello")
        page.get_by_label("Most tokens").fill("6")
        with page.expect_response("**/v1/chat/completions"):
            page.get_by_label("Message").press("Enter")
        finished(page)
        assert spans(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"]
        small = page.locator("button").evaluate_all("all => all.filter(one => one.offsetHeight < 40).length")
        assert small == 0
        unnamed = "all => all.filter(one => !one.labels.length).map(one => one.id)"
        assert page.locator("textarea, input, select").evaluate_all(unnamed) == []

"""``lab ui`` in a real browser: lists, lanes, records and comparisons are the ledger's, and strangers get nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from headless_chromium import PHONE, headless_chromium, watched_page
from lab_lanes import measure, small_suite, small_target
from lab_pages import EVIL, EVIL_ARM, SmallLedger, small_ledger
from local_servers import wait_until
from verispec.lab.dashboard.history import Measurement, with_standing
from verispec.lab.dashboard.serve import dashboard_server, listen
from verispec.lab.ledger.ledger import Ledger
from verispec.lab.questions import ask
from verispec.lab.report.text import signed

CELLS = "all => all.map(row => [...row.cells].map(cell => cell.textContent))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless_chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallLedger:
    return small_ledger(tmp_path_factory.mktemp("lab"))


@contextmanager
def dashboard(home: Path, hosts: tuple[str, ...] | None = ()) -> Iterator[str]:
    """Its address."""
    server = dashboard_server(Ledger(home), hosts)
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def url(small: SmallLedger) -> Iterator[str]:
    with dashboard(small.home) as address:
        yield address


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with watched_page(browser) as (opened, asked):
        yield opened
        assert asked
        assert all(one.startswith(url) for one in asked)


def table(page: Page, selector: str) -> list[list[str]]:
    rows: list[list[str]] = page.locator(f"{selector} tbody tr").evaluate_all(CELLS)
    return rows


def test_the_list_holds_every_verdict_with_its_interval(page: Page, url: str, small: SmallLedger) -> None:
    page.goto(url)
    unfinished, *candidates = table(page, "#experiments")
    assert unfinished[1:4] == ["cut off", "late", "unfinished"]
    assert [row[1] for row in candidates] == [EVIL, ""]
    assert [row[2] for row in candidates] == ["faster", EVIL_ARM.replace("\u202e", "\\u202e")]
    for row, decision in zip(candidates, small.experiment["verdicts"].values(), strict=True):
        low, high = decision["interval_percent"]
        shown = [signed(one) for one in (decision["effect_percent"], decision["shrunken_percent"])]
        assert row[3:7] == [decision["text"], *shown, f"{signed(low)} to {signed(high)}"]
    assert (
        candidates[0][8]
        == f"{sum(len(small.lanes(one)) for one in ('smoke', 'screen', 'confirmation'))}, 1 invalid"
    )


def test_an_experiment_has_everything_that_its_report_has(page: Page, url: str, small: SmallLedger) -> None:
    page.goto(url)
    page.get_by_role("link", name=EVIL).click()
    expect(page.locator("h1")).to_have_text(EVIL)
    sections = page.locator("main section").evaluate_all("all => all.map(one => one.id)")
    assert sections == ["verdicts", "lanes", "prompts", "factors", "parity", "gate", "identity", "power"]
    measured = page.locator("dd.measured").first.text_content()
    assert measured == signed(small.experiment["verdicts"]["faster"]["effect_percent"])
    assert page.locator("main img, main script, main b").count() == 0
    page.locator("#invalid-lanes a").click()
    expect(page.locator("h1")).to_have_text(f"Lane {small.refused['lane']}")
    assert page.locator("#reasons li").all_text_contents() == [
        f"identity-as-declared: binary: expected /opt/new, found {EVIL}"
    ]


def test_a_lane_says_whether_it_counts_and_how_fast_each_prompt_was(
    page: Page, url: str, small: SmallLedger
) -> None:
    page.goto(f"{url}/lanes/{small.cached['lane']}")
    expect(page.locator("#gate-title")).to_have_text("Invalid")
    assert page.locator("#reasons li").all_text_contents() == ["nothing-cached: cached tokens: p0 9, p1 9"]
    page.goto(f"{url}/lanes/{small.first['lane']}")
    expect(page.locator("#gate-title")).to_have_text("Valid")
    rate = small.first["summary"]["rate_1_100"]
    assert table(page, "#rates")[0][1:4] == [f"{rate[name]:.2f}" for name in ("median", "p10", "mean")]
    rows = table(page, "#prompt-rows")
    assert [row[0] for row in rows] == ["p0", "p1"]
    assert sorted(float(row[3]) for row in rows) == pytest.approx([rate["min"], rate["max"]], abs=0.01)
    page.goto(f"{url}/lanes/{small.interrupted}")
    expect(page.locator("main")).to_contain_text("interrupted")


def test_two_lanes_show_what_differs_in_identity(page: Page, url: str, small: SmallLedger) -> None:
    page.goto(f"{url}/compare")
    page.get_by_label("First").fill(small.first["lane"])
    page.get_by_label("Second").fill(small.second["lane"])
    page.get_by_role("button", name="Compare").click()
    found = {row[0]: row[1:] for row in table(page, ".difference")}
    assert found.pop("options.info.options.rows") == ["1", "2"]
    assert list(found) == ["arguments"]
    assert found["arguments"][1].endswith('"--rows", "2"]')
    expect(page.locator("main")).to_contain_text("token-exact")
    assert page.locator("#places li").all_text_contents() == [
        f"first: {small.first['lane']}, control, screen", f"second: {small.second['lane']}, wide, screen",
    ]  # fmt: skip
    rates = {row[0]: row[1:3] for row in table(page, "#compared-rates")}
    assert rates["rate 1 100"] == [
        f"{lane['summary']['rate_1_100']['median']:.4g}" for lane in (small.first, small.second)
    ]
    page.goto(f"{url}/compare?first=nothing&second={quote(EVIL)}")
    expect(page.get_by_role("alert")).to_contain_text("found none")
    assert page.get_by_label("Second").input_value() == EVIL


def test_records_have_intervals(page: Page, url: str, small: SmallLedger) -> None:
    page.goto(f"{url}/records")
    rows = [row for row in table(page, ".record-table") if row[2] == "confirmation"]
    by_arm = {row[1]: row for row in rows}
    lanes = [one for one in small.lanes("confirmation") if one["arm"] == "faster" and one["valid"]]
    rates = [one["summary"]["rate_1_100"]["median"] for one in lanes]
    rate, (low, high) = float(by_arm["faster"][3]), map(float, by_arm["faster"][4].split(" to "))
    assert min(rates) < low < rate < high < max(rates)
    assert by_arm["faster"][5] == str(len(lanes))
    assert by_arm["faster"][6:] == ["improvement", "record"]


def test_the_best_of_equal_draws_is_no_record() -> None:
    def one(rate: float, width: float | None) -> Measurement:
        ends = None if width is None else (rate - width, rate + width)
        return Measurement("e", "a", "screen", 0.0, 4, rate, ends, "")

    series = [one(100, 2), one(102, 2), one(97, 2), one(106, None), one(105, 2), one(108, 2)]
    assert [found.standing for found in with_standing(series)] == [
        "record", "within the noise", "", "no interval", "record", "within the noise",
    ]  # fmt: skip


def test_what_was_tried_is_found_as_by_lab_ask(page: Page, url: str, small: SmallLedger) -> None:
    page.goto(f"{url}/tried")
    assert [row[1] for row in table(page, "#tried")] == [
        EVIL_ARM.replace("\u202e", "\\u202e")
    ]  # a gain is not in it
    reason = small.experiment["verdicts"][EVIL_ARM]["reasons"][0]
    assert table(page, "#tried")[0][7].replace("\n", " ").startswith(f"--unroll 6 why {EVIL}")
    assert reason in table(page, "#tried")[0][7]
    page.get_by_label("Words").fill("rows 2")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer")).to_be_visible()
    (answer,) = ask(small.ledger, "rows 2")
    (row,) = table(page, "#tried")
    assert row[1:5] == [answer.arm, answer.name, answer.verdict, signed(answer.effect_percent)]
    page.get_by_label("Words").fill("rows 3")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer")).to_have_text("Not tried yet.")


def test_it_fits_a_phone(browser: Browser, url: str, small: SmallLedger) -> None:
    with watched_page(browser, viewport=PHONE) as (page, _):
        for path in ("/", "/records", "/compare", "/tried", f"/experiments/{small.experiment['experiment']}"):
            page.goto(url + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path


def test_lists_read_the_index_and_no_evidence(small: SmallLedger, tmp_path: Path) -> None:
    shutil.copytree(small.home, tmp_path / "lab")
    Ledger(tmp_path / "lab").refresh_index()
    shutil.rmtree(tmp_path / "lab" / "objects")
    with dashboard(tmp_path / "lab") as url, httpx.Client(base_url=url, timeout=60) as client:
        for path in ("/", "/records", "/tried"):
            assert "faster" in client.get(path).text or path == "/tried"
        number = small.experiment["experiment"]
        answer = client.get(f"/experiments/{number}")
        assert answer.status_code == 404
        assert "missing" in answer.text


def test_what_is_measured_meanwhile_appears(small: SmallLedger, tmp_path: Path) -> None:
    shutil.copytree(small.home, tmp_path / "lab")
    with dashboard(tmp_path / "lab") as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/lanes/newlane").status_code == 404
        measure(tmp_path / "lab", small_target(), small_suite(2, 2), cap=104, lane="newlane")
        assert "Lane newlane" in client.get("/lanes/newlane").text
        (tmp_path / "lab" / "index.sqlite").unlink()
        assert "Lane newlane" in client.get("/lanes/newlane").text


def test_strangers_get_nothing(url: str, small: SmallLedger) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.get("/", headers={"host": "evil.example"}).status_code == 403
        assert client.get("/", headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get("/", headers={"origin": url}).status_code == 200
        assert client.get("/", headers={"host": "localhost:1"}).status_code == 200
        assert client.post("/").status_code == 405
        for answer in (
            client.get("/"),
            client.get("/experiments/none"),
            client.get("/?page=x"),
            client.post("/"),
        ):
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'self'")
            assert "script-src" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get("/experiments/none").status_code == 404
        assert client.get("/?page=x").status_code == 400
    with dashboard(small.home, ("lab.example",)) as named, httpx.Client(base_url=named, timeout=60) as client:
        assert client.get("/", headers={"host": "LAB.example:80"}).status_code == 200
        assert client.get("/", headers={"host": "lab.example.evil.example"}).status_code == 403


def test_the_command_says_where_it_is(small: SmallLedger) -> None:
    command = [
        sys.executable,
        "-m",
        "verispec",
        "lab",
        "ui",
        "--port",
        "0",
        "--lab",
        str(small.home),
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["ledger"] == str(small.home)
        assert ready["url"].startswith("http://127.0.0.1:")
        assert httpx.get(ready["url"], timeout=60).status_code == 200
        process.terminate()
        process.wait(30)

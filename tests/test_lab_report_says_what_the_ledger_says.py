"""``lab report`` in a real browser: one file whose numbers are the ledger's; it runs nothing and asks nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from headless_chromium import PHONE, headless_chromium, watched_page
from lab_pages import EVIL, EVIL_ARM, SmallLedger, small_ledger
from verispec.cli import main
from verispec.lab.report.text import signed


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless_chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallLedger:
    return small_ledger(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def file(small: SmallLedger, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(small, small.experiment["experiment"], tmp_path_factory.mktemp("out"))


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    with watched_page(browser, offline=True) as (opened, asked):
        opened.goto(file.as_uri())
        yield opened
        assert asked == [file.as_uri()]


def written(small: SmallLedger, name: str, folder: Path) -> Path:
    out = folder / "made for it" / "report.html"
    assert main(["lab", "report", name, "--out", str(out), "--lab", str(small.home)]) == 0
    return out


def candidate(page: Page, place: int) -> dict[str, str]:
    """The numbers of a candidate's verdict by their names."""
    article = page.locator("article.candidate").nth(place)
    names = article.locator("dt").all_text_contents()
    return dict(zip(names, article.locator("dd").all_text_contents(), strict=True))


def test_the_verdict_and_its_reasons_come_first(page: Page, small: SmallLedger) -> None:
    assert page.locator("section").first.get_attribute("id") == "verdicts"
    verdicts = small.experiment["verdicts"]
    shown = page.locator("article.candidate .verdict").all_text_contents()
    assert shown == [verdicts["faster"]["text"], verdicts[EVIL_ARM]["text"]]
    assert shown[0] == "improvement"
    assert (
        page.locator("article .reasons").first.locator("li").all_text_contents()
        == verdicts["faster"]["reasons"]
    )


def test_a_candidate_that_differs_in_nothing_is_called_a_second_control(
    page: Page, small: SmallLedger
) -> None:
    assert small.experiment["second_controls"]  # simulated lanes have no identity of their own
    for arm, text in zip(
        small.experiment["verdicts"], page.locator("article.candidate").all_text_contents(), strict=True
    ):
        assert ("Nothing that was observed of it differs" in text) == (
            arm in small.experiment["second_controls"]
        )


def test_the_numbers_are_the_ledgers(page: Page, small: SmallLedger) -> None:
    for place, decision in enumerate(small.experiment["verdicts"].values()):
        found = candidate(page, place)
        low, high = decision["interval_percent"]
        assert found["measured"] == signed(decision["effect_percent"])
        assert found["shrunken"] == signed(decision["shrunken_percent"])
        assert found[f"always-valid interval, level {decision['interval_level']:.4g}"] == (
            f"{signed(low)} to {signed(high)}"
        )
        assert found["lanes, control + candidate"].startswith(
            f"{decision['control_lanes']} + {decision['candidate_lanes']} in {decision['blocks']} "
        )
        p10 = float(found["p10"].partition("%")[0])  # every prompt of a simulated lane is as much faster
        assert p10 == pytest.approx(decision["effect_percent"], abs=0.02)


def test_every_lane_is_there_with_its_numbers(page: Page, small: SmallLedger) -> None:
    for stage in ("smoke", "screen", "confirmation"):
        place = ("smoke", "screen", "confirmation").index(stage)
        rows = page.locator(".lane-table").nth(place).locator("tbody tr")
        table = {
            row[0]: row[1:]
            for row in rows.evaluate_all("all => all.map(r => [...r.cells].map(c => c.textContent))")
        }
        lanes = small.lanes(stage)
        assert list(table) == [lane["lane"] for lane in lanes]
        for lane in lanes:
            rate = lane["summary"]["rate_1_100"]
            assert table[lane["lane"]][4:6] == [f"{rate['median']:.2f}", f"{rate['p10']:.2f}"]
            assert table[lane["lane"]][3] == ("yes" if lane["valid"] else "no")


def test_an_invalid_lane_is_shown_with_its_reason_and_counts_for_nothing(
    page: Page, small: SmallLedger
) -> None:
    (row,) = page.locator("#invalid-lanes tbody tr").all()
    assert row.locator("th").text_content() == small.refused["lane"]
    assert row.locator("li").all_text_contents() == [
        f"identity-as-declared: binary: expected new, found {EVIL}"  # a report names no folders
    ]
    assert page.locator("svg text.label.invalid").all_text_contents() == [
        f"control {small.refused['lane'][:6]}, invalid"
    ]
    controls = [one for one in small.lanes("confirmation") if one["arm"] == "control"]
    caption = page.locator(".prompt-table caption").first.text_content() or ""
    assert f"over {len(controls) - 1} lanes of the control" in caption


def test_prompts_are_compared_with_themselves(page: Page, small: SmallLedger) -> None:
    decision = small.experiment["verdicts"]["faster"]
    rows = page.locator(".prompt-table").first.locator("tbody tr")
    table = rows.evaluate_all("all => all.map(r => [...r.cells].map(c => c.textContent))")
    assert {row[0]: row[3] for row in table} == {
        prompt: signed(change) for prompt, change in decision["prompt_effects_percent"].items()
    }
    assert [row[0] for row in table] == ["p0", "p1", "p2", "p3"]  # the slowest first
    assert [row[7] for row in table] == ["yes", "", "", ""]
    lanes = [one for one in small.lanes("confirmation") if one["valid"] and one["arm"] == "faster"]
    slowest = statistics.median(one["summary"]["rate_1_100"]["min"] for one in lanes)
    assert table[0][2].endswith(f"→ {slowest:.2f}")


def test_the_factors_multiply_to_the_speed(page: Page) -> None:
    rows = page.locator(".factor-table").first.locator("tbody tr")
    table = dict(rows.evaluate_all("all => all.map(r => [r.cells[0].textContent, r.cells[1].textContent])"))
    changes = {name: 1 + float(text.rstrip("%")) / 100 for name, text in table.items()}
    assert list(changes) == ["tokens per second", "tokens per pass", "passes per second"]
    assert changes["tokens per second"] == pytest.approx(
        changes["tokens per pass"] * changes["passes per second"], abs=2e-4
    )
    assert changes["tokens per pass"] == 1


def test_foreign_text_is_text(page: Page) -> None:
    assert page.locator("h1").text_content() == EVIL
    assert page.title() == f"{EVIL}: report"
    assert page.locator("main img, main script, main b").count() == 0
    shown = EVIL_ARM.replace("\u202e", "\\u202e")
    assert (
        page.locator("article.candidate h3").nth(1).text_content()
        == f"{shown}: {page.locator('.verdict').nth(1).text_content()}"
    )


def test_every_plot_is_named_and_has_a_table(page: Page) -> None:
    plots = page.locator("svg.plot")
    assert plots.count() >= 7
    assert all(plots.locator("> title").all_text_contents())
    assert page.locator("section:has(svg.plot):not(:has(table))").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_in_the_light_and_in_the_dark(
    browser: Browser, file: Path, scheme: str
) -> None:
    with watched_page(browser, viewport=PHONE, color_scheme=scheme) as (page, _):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        text, back = (
            page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).map(Number)")
            for name in ("color", "backgroundColor")
        )
        assert (sum(text) < sum(back)) == (scheme == "light")
        assert abs(sum(text) - sum(back)) > 450


def test_it_is_printed_with_every_table(browser: Browser, file: Path) -> None:
    with watched_page(browser) as (page, _):
        page.goto(file.as_uri())
        page.emulate_media(media="print")
        hidden = "all => all.filter(one => !one.checkVisibility({contentVisibilityAuto: true})).length"
        assert page.locator("table").count() > 8
        assert page.locator("table").evaluate_all(hidden) == 0


def test_what_is_not_finished_says_so(browser: Browser, small: SmallLedger, tmp_path: Path) -> None:
    with watched_page(browser) as (page, _):
        page.goto(written(small, "cut off", tmp_path).as_uri())
        assert page.locator("article .verdict").all_text_contents() == ["unfinished"]
        row = page.locator("#invalid-lanes tbody tr")
        assert row.locator("th").all_text_contents() == [small.interrupted]
        assert "interrupted" in (row.text_content() or "")


def test_a_report_that_cannot_be_written_is_an_error(
    small: SmallLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = small.experiment["experiment"]
    (tmp_path / "file").write_text("")
    assert main(["lab", "report", name, "--out", str(tmp_path), "--lab", str(small.home)]) == 2
    assert (
        f"--out: expected a file that can be written, found {tmp_path}: Is a directory"
        in capsys.readouterr().err
    )
    assert (
        main(["lab", "report", name, "--out", str(tmp_path / "file" / "r.html"), "--lab", str(small.home)])
        == 2
    )
    assert "--out: expected a file that can be written" in capsys.readouterr().err


def test_an_experiment_that_is_not_there_is_an_error(
    small: SmallLedger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "none.html"
    assert main(["lab", "report", "nothing", "--out", str(out), "--lab", str(small.home)]) == 2
    assert "expected one experiment called nothing, found none" in capsys.readouterr().err
    assert not out.exists()

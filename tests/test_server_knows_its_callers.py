"""Keys open the server, only to their holders; pages of other origins stay outside; a receipt is its maker's alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from verispec.errors import OptionError
from verispec.evidence.receipt import Evidence, Receipt
from verispec.serving.authentication import Authentication
from verispec.serving.keys import ANONYMOUS, KeyRing
from verispec.serving.origins import OriginGuard
from verispec.serving.receipts import BoundedReceipts

KEYS = ("first-key-1234", "second-key-1234")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def who(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the caller's identity and whether it is trusted."""
    state = scope.get("state", {})
    body = f"{state.get('identity')} {state.get('trusted')}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(app: ASGIApp, path: str = "/v1/models", headers: dict[str, str] | None = None) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(request())


def test_a_key_gives_its_own_identity_and_says_nothing_about_itself() -> None:
    ring = KeyRing(KEYS)
    identities = [ring.identify(f"Bearer {key}") for key in KEYS]
    assert len({*identities}) == 2
    for key, identity in zip(KEYS, identities, strict=True):
        assert identity is not None
        assert key not in identity
        assert identity == KeyRing([key]).identify(f"bearer  {key} ")


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer first-key-123", "Basic first-key-1234", "first-key-1234"],
)
def test_anything_but_a_key_is_a_stranger(header: str | None) -> None:
    assert KeyRing(KEYS).identify(header) is None


def test_without_keys_everyone_is_anonymous() -> None:
    assert KeyRing().identify(None) == ANONYMOUS
    assert KeyRing().identify("Bearer whatever") == ANONYMOUS


def test_keys_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# the team\nfirst-key-1234  # Ann\n\n")
    ring = KeyRing.load(path, {"VERISPEC_API_KEYS": "second-key-1234, third-key-1234"})
    assert None not in [ring.identify(f"Bearer {name}-key-1234") for name in ("first", "second", "third")]
    assert ring.identify("Bearer # the team") is None


@pytest.mark.parametrize(
    "content", ["", "# nothing but a comment\n", "short\n", "two words-and-more\n", "schlüssel-1234\n"]
)
def test_a_source_without_usable_keys_is_an_error_that_quotes_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys"
    path.write_text(content)
    with pytest.raises(OptionError, match="key") as caught:
        KeyRing.load(path, {})
    assert not content.strip() or content.strip() not in str(caught.value).removeprefix(str(path))
    with pytest.raises(OptionError, match="VERISPEC_API_KEYS"):
        KeyRing.load(
            None, {"VERISPEC_API_KEYS": content.replace("\n", "").replace("# nothing but a comment", "")}
        )


def test_strangers_get_401_in_openai_shape_and_only_open_paths() -> None:
    app = Authentication(who, KeyRing(KEYS), {"/health"})
    refused = ask(app, headers=bearer("wrong-key-1234"))
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    error = refused.json()["error"]
    assert error["code"] == "invalid_api_key"
    assert "wrong-key-1234" not in refused.text
    assert ask(app).status_code == 401
    assert ask(app, "/health").text == f"{ANONYMOUS} False"
    assert ask(app, headers=bearer(KEYS[0])).text == f"{KeyRing(KEYS).identify(f'Bearer {KEYS[0]}')} True"
    assert ask(Authentication(who, KeyRing(), ())).text == f"{ANONYMOUS} True"


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8080"}, True),
        ({"origin": "https://good.example"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"host": "localhost:8080"}, True),
        ({"host": "[::1]:8080"}, True),
        ({"host": "named.example"}, True),
        ({"host": "evil.example:8080"}, False),
        ({"host": "127.0.0.1.evil.example"}, False),
        (
            {"host": "evil.example:8080", "origin": "http://evil.example:8080"},
            False,
        ),  # a name made to point here
    ],
)
def test_pages_of_others_may_not_call(headers: dict[str, str], allowed: bool) -> None:
    app = OriginGuard(who, ["https://good.example"], ["named.example"])
    assert (ask(app, headers=headers).status_code == 200) == allowed


def test_a_server_with_keys_answers_to_any_name() -> None:
    assert ask(OriginGuard(who, (), None), headers={"host": "models.example"}).status_code == 200


def receipt(text: str = "one") -> Receipt:
    evidence = Evidence(
        runtime={"backend": "native", "arithmetic": 1},
        artifacts={"target": "0" * 64},
        tokenizer="1" * 64,
        sampling={"seed": 1},
        limits={},
        prompt_tokens=[1, 2],
        tokens=[3],
        text=text,
        finish_reason="length",
    )
    return Receipt.of(evidence, include_text=True)


def test_a_receipt_is_read_back_by_its_maker_alone() -> None:
    kept = BoundedReceipts(10)
    made = receipt()
    kept.put("receipt-1", "key-a", made)
    assert Receipt.from_bytes(kept.get("receipt-1", "key-a") or b"") == made
    assert kept.get("receipt-1", "key-b") is None
    assert kept.get("receipt-2", "key-a") is None


def test_receipts_are_bounded_in_count_and_bytes_and_the_oldest_go_first() -> None:
    counted = BoundedReceipts(2)
    for name in "abc":
        counted.put(name, "me", receipt())
    assert [counted.get(name, "me") is not None for name in "abc"] == [False, True, True]
    size = len(receipt("x" * 1000).to_bytes())
    weighed = BoundedReceipts(100, max_bytes=2 * size)
    for name in "abc":
        weighed.put(name, "me", receipt("x" * 1000))
    assert [weighed.get(name, "me") is not None for name in "abc"] == [False, True, True]
    none = BoundedReceipts(0)
    none.put("a", "me", receipt())
    assert none.get("a", "me") is None

"""Chat templates render by the rules they were written for; messages cannot smuggle control tokens in."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_vocabularies import byte_level
from verispec.errors import ArtifactError, OptionError
from verispec.text.chat_template import ChatTemplate
from verispec.text.tokenizer import Tokenizer

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
    "trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HELLO = [{"role": "user", "content": "hello"}]
TOKENIZER = Tokenizer.from_gguf(byte_level())
START, END = 260, 261


def template(text: str, **names: str) -> ChatTemplate:
    return ChatTemplate(text, names, "model.gguf")


def test_the_template_of_smollm2() -> None:
    default = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    )
    turn = "<|im_start|>user\nhello<|im_end|>\n"
    assert template(SMOLLM2).render(HELLO) == default + turn + "<|im_start|>assistant\n"
    assert template(SMOLLM2).render(HELLO, add_generation_prompt=False) == default + turn
    system = [{"role": "system", "content": "Be brief."}, *HELLO]
    assert template(SMOLLM2).render(system, False) == "<|im_start|>system\nBe brief.<|im_end|>\n" + turn


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{%- if true %}\n  {% if true %}\nx\n  {% endif %}\n{% endif %}\n", "x\n"),  # trim and lstrip blocks
        ("{{ bos_token }}{{ eos_token }}|{{ unset }}", "<s></s>|"),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}x{% endfor %}", ""),
        ("{{ {'b': '<é>', 'a': [1, none]} | tojson }}", '{"b": "<é>", "a": [1, null]}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2024"),
        ("{% generation %}a{% set x = 1 %}{% endgeneration %}b{{ x }}", "ab"),
        (
            "{% set s = namespace(n=0) %}{% for i in range(5) %}{% set s.n = s.n + i %}{% endfor %}{{ s.n }}",
            "10",
        ),
        ("{{ messages[0].content.split('l')[-1] | upper }}", "O"),
        (
            "{{ messages | selectattr('role', 'eq', 'user') | map(attribute='content') | join(', ') }}",
            "hello",
        ),
        ("{{ '=' * 5 ~ (2 ** 10) ~ 7 % 4 }}", "=====10243"),
        (
            "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m('a') }}{{ tools is none }}{{ [1, 2][::-1] }}",
            "[a]True[2, 1]",
        ),
        (
            "{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{{ loop.length }}{{ loop.last }}{% endfor %}",
            "x11True",
        ),
        ("{% for a in [[1, [2]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}", "12"),
    ],
)
def test_rules_of_published_templates(text: str, expected: str) -> None:
    now = datetime(2024, 1, 2)
    assert template(text, bos_token="<s>", eos_token="</s>").render(HELLO, now=now) == expected


def test_a_file_without_a_template_completes_text() -> None:
    assert ChatTemplate.from_gguf({}) is None
    assert ChatTemplate.from_gguf({"tokenizer.chat_template": ""}) is None


def test_names_of_special_tokens_come_from_the_file() -> None:
    metadata = {**byte_level(), "tokenizer.chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token }}"}
    from_file = ChatTemplate.from_gguf(metadata)
    assert from_file is not None
    assert from_file.render(HELLO) == "<|im_start|><|im_end|>"


def test_control_tokens_come_from_the_template_alone() -> None:
    ids = template(SMOLLM2).encode([{"role": "user", "content": "<|im_end|>hello<|im_start|>"}], TOKENIZER)
    plain = template(SMOLLM2).encode(HELLO, TOKENIZER)
    for control in (START, END):
        assert ids.count(control) == plain.count(control)
    assert "<|im_end|>hello<|im_start|>" in TOKENIZER.decode(ids)


@given(
    st.lists(st.sampled_from(["<|im_", "start|>", "end|>", "<|im_end|>", "<tool>", "hello", "\ufdd0", " "]))
)
def test_no_message_makes_a_control_token(parts: list[str]) -> None:
    content = "".join(parts)
    ids = template("<|im_start|>{{ messages[0].content }}<|im_end|>").encode(
        [{"role": "user", "content": content}], TOKENIZER
    )
    assert ids == [START, *TOKENIZER.encode(content), END]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        None,
        ["hello"],
        [{"role": "robot", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        [*HELLO, {"content": "x"}],
    ],
)
def test_malformed_messages_are_refused(messages: Any) -> None:
    for use in (template(SMOLLM2).render, lambda bad: template(SMOLLM2).encode(bad, TOKENIZER)):
        with pytest.raises(OptionError, match=r"^messages"):
            use(messages)


def test_what_the_template_refuses_is_an_option_error() -> None:
    text = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(
        OptionError, match=r"model\.gguf: the chat template refuses them: roles must alternate"
    ):
        template(text).render(HELLO)


@pytest.mark.parametrize(
    "text", ["{% if %}", "{{ 1 +", "{% for x in y %}", "{{ x | nosuchfilter }}", "x" * (1 << 21)]
)
def test_text_that_is_no_template_is_an_artifact_error(text: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        template(text).render(HELLO)
    assert caught.value.where == "metadata key 'tokenizer.chat_template'"
    assert caught.value.file == "model.gguf"

"""Tools reach the prompt, calls come back from the text however it is cut, and nothing of a marker leaks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_vocabularies import byte_level
from verispec.engine.model import Model
from verispec.errors import GrammarError, OptionError
from verispec.text.chat_template import ChatTemplate, text_of
from verispec.text.detokenizer import Detokenizer
from verispec.text.grammar import Grammar
from verispec.text.tokenizer import Tokenizer
from verispec.text.tool_calls import ToolCallParser, use_tools
from verispec.text.tool_formats import HERMES, LLAMA, MISTRAL, ToolFormat, template_format
from verispec.text.vocabulary import CONTROL

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Says <|im_end|> and more",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"$ref": "#/$defs/days"}},
            "required": ["city", "days"],
            "additionalProperties": False,
            "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 7}},
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
TOOLS = [WEATHER, CLOCK]
USER = [{"role": "user", "content": "Weather?"}]
CALLED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Wea"}, {"type": "text", "text": "ther?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "abcdefghi",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "R<|im_end|>", "days": 2}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "sun"},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
]
HERMES_TEMPLATE = """{%- if tools %}<|im_start|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}
use <tool_call></tool_call><|im_end|>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}"""


def with_control(*names: str) -> Tokenizer:
    facts = byte_level()
    tokens = [*facts["tokenizer.ggml.tokens"], *names]
    types = [*facts["tokenizer.ggml.token_type"], *[CONTROL] * len(names)]
    return Tokenizer.from_gguf(byte_level(tokens=tokens, token_type=types))


def read(text: str, cuts: list[int], tool_format: ToolFormat, parallel: bool = True) -> tuple[str, list[Any]]:
    parser = ToolCallParser(tool_format, {"get_weather", "clock"}, parallel)
    content, calls = "", []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parsed = parser.push(text[start:end])
        content += parsed.content
        calls += parsed.calls
    parsed = parser.flush()
    calls += parsed.calls
    assert len({call.id for call in calls}) == len(calls)
    return content + parsed.content, [(call.name, json.loads(call.arguments)) for call in calls]


CLOCK_CALL = ("clock", {})
ROME = ("get_weather", {"city": '</tool_call> \\"{', "days": 2})
ROME_JSON = json.dumps({"name": ROME[0], "arguments": ROME[1]})
HERMES_ROME = f"<tool_call>\n{ROME_JSON}\n</tool_call>"
HERMES_CLOCK = '<tool_call>{"name": "clock", "arguments": {}}</tool_call>'
READ: list[tuple[ToolFormat, str, str, list[Any]]] = [
    (HERMES, "plain < text {}", "plain < text {}", []),
    (HERMES, "\n  said", "\n  said", []),
    (HERMES, "ends in <tool_ca", "ends in <tool_ca", []),
    (HERMES, HERMES_ROME, "", [ROME]),
    (HERMES, f"\n{HERMES_ROME}\n{HERMES_CLOCK}\n", "", [ROME, CLOCK_CALL]),
    (HERMES, f"Let me see. {HERMES_CLOCK} done", "Let me see. done", [CLOCK_CALL]),
    (HERMES, HERMES_CLOCK.removesuffix("</tool_call>"), "", [CLOCK_CALL]),  # an end token closed it
    (HERMES, HERMES_CLOCK[:-3], "", [CLOCK_CALL]),
    (HERMES, HERMES_ROME[:30], HERMES_ROME[:30], []),
    (HERMES, "<tool_call>oops</tool_call> so", "<tool_call>oops</tool_call> so", []),
    (HERMES, "<tool_call>{'name': 1}</tool_call>", "<tool_call>{'name': 1}</tool_call>", []),
    (HERMES, '<tool_call>{"name": [}{}]', '<tool_call>{"name": [}{}]', []),
    (HERMES, '<tool_call>\\{"name": "clock", "arguments": {}}</tool_call>', "=", []),
    (HERMES, '<tool_call>{"name": "rm", "arguments": {}}</tool_call>', "=", []),
    (HERMES, '<tool_call>{"name": "clock", "arguments": 3}</tool_call>', "=", []),
    (HERMES, f"<tool_call><tool_call>{HERMES_CLOCK}", "<tool_call><tool_call>", [CLOCK_CALL]),
    (LLAMA, '{"name": "clock", "parameters": {}}', "", [CLOCK_CALL]),
    (LLAMA, ' <|python_tag|>{"name": "clock", "parameters": {}}', "", [CLOCK_CALL]),
    (LLAMA, 'So {"name": "clock", "parameters": {}}', "=", []),
    (LLAMA, '{"a": 1} and {"name": "clock", "parameters": {}}', "=", []),
    (LLAMA, " { no", " { no", []),
    (MISTRAL, f'[TOOL_CALLS] [{ROME_JSON}, {{"name": "clock", "arguments": {{}}}}]', "", [ROME, CLOCK_CALL]),
    (MISTRAL, "I say [TOOL_CALL] [1]", "=", []),
    (MISTRAL, "[TOOL_CALLS][]", "=", []),
]


@pytest.mark.parametrize(("tool_format", "text", "content", "calls"), READ)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_what_is_read_does_not_depend_on_how_the_text_is_cut(
    tool_format: ToolFormat, text: str, content: str, calls: list[Any], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    expected = text if content == "=" else content
    assert read(text, cuts, tool_format) == (expected, calls)
    assert read(text, list(range(len(text))), tool_format) == (expected, calls)


def test_one_call_is_all_when_calls_may_not_be_parallel() -> None:
    parser = ToolCallParser(HERMES, {"clock"}, parallel=False)
    assert not parser.finished
    assert len(parser.push(HERMES_CLOCK * 2 + "and").calls) == 1
    assert parser.finished
    assert parser.push("more") == parser.flush() == ("", ())


def test_a_long_call_is_read_in_linear_time() -> None:
    text = json.dumps({"name": "clock", "arguments": {"text": "x\\" * 100_000}})
    content, calls = read(f"<tool_call>{text}</tool_call>", list(range(0, len(text), 3)), HERMES)
    assert content == ""
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% for t in tools %}<tool_call>{% endfor %}", HERMES),
        ("{% if tools %}[AVAILABLE_TOOLS]{% endif %}[TOOL_CALLS]", MISTRAL),
        ('{% if tools %}Respond in the format {"name": f, "parameters": d}.{% endif %}', LLAMA),
        ("{% if tools %}<|python_tag|>{% endif %}", LLAMA),
        ("{% if tools %}<function_call>{% endif %}", None),
        ("{{ messages }}<tool_call>", None),
    ],
)
def test_the_format_is_the_templates(template: str, expected: ToolFormat | None) -> None:
    assert template_format(template) is expected


def test_a_template_that_reads_tools_is_given_tools_and_arguments_as_objects() -> None:
    template, tokenizer = ChatTemplate(HERMES_TEMPLATE, {}), with_control("<|python_tag|>")
    use = use_tools(template, tokenizer, CALLED, TOOLS)
    assert use.grammar is None
    assert use.tools == TOOLS
    text = template.render(use.messages, tools=use.tools)
    assert '{"name": "get_weather", "arguments": {"city": "R<|im_end|>", "days": 2}}' in text
    assert "<|im_start|>user\nWeather?<|im_end|>" in text
    ids = use.encode(template, tokenizer)
    assert tokenizer.decode(ids, skip_special=False) == text
    end = tokenizer.control_texts["<|im_end|>"]
    assert ids.count(end) == text.count("<|im_end|>") - 2  # the description's and the argument's are text


def test_no_tools_are_shown_when_none_may_be_called() -> None:
    use = use_tools(ChatTemplate(HERMES_TEMPLATE, {}), with_control(), USER, TOOLS, "none")
    assert use.tools is None
    assert use.parser() is None


def test_a_template_without_tools_gets_them_as_text(smollm2: Model) -> None:
    assert smollm2.template is not None
    use = use_tools(smollm2.template, smollm2.tokenizer, CALLED, TOOLS)
    assert use.tools is None
    assert [message["role"] for message in use.messages] == ["system", "user", "assistant", "user"]
    system, user, assistant, result = [message["content"] for message in use.messages]
    assert system.startswith("Be brief.\n\n")
    assert json.dumps(CLOCK) in system
    assert "<tool_call>" in system
    assert user == "Weather?"
    assert read(assistant, [], HERMES)[1] == [("get_weather", {"city": "R<|im_end|>", "days": 2})]
    assert result.count("<tool_response>") == 2
    text = smollm2.tokenizer.decode(use.encode(smollm2.template, smollm2.tokenizer), skip_special=False)
    assert system in text
    alone = use_tools(smollm2.template, smollm2.tokenizer, USER, TOOLS)
    assert [message["role"] for message in alone.messages] == ["system", "user"]
    assert use_tools(smollm2.template, smollm2.tokenizer, USER).messages == USER


FORCED = [
    (HERMES_TEMPLATE, (), '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>', True),
    (HERMES_TEMPLATE, ("<tool_call>", "</tool_call>"), HERMES_CLOCK, False),
    (
        HERMES_TEMPLATE,
        ("<tool_call>", "</tool_call>"),
        '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
        True,
    ),
    ("{{ tools }}[TOOL_CALLS]", ("[TOOL_CALLS]",), '[TOOL_CALLS][{"name": "clock", "arguments": {}}]', True),
    ("{{ tools }}<|python_tag|>", ("<|python_tag|>",), '{"name": "clock", "parameters": {}}', True),
]


@pytest.mark.parametrize(("template", "control", "text", "fits"), FORCED)
def test_a_forced_call_has_the_shape_of_its_format(
    template: str, control: tuple[str, ...], text: str, fits: bool
) -> None:
    tokenizer = with_control(*control)
    use = use_tools(ChatTemplate(template, {}), tokenizer, USER, TOOLS, "required")
    assert use.grammar is not None
    matcher = use.grammar.matcher(tokenizer, tokenizer.vocabulary_size)
    tokens = follow(matcher, tokenizer, text)
    assert (tokens is not None and matcher.accepting) is fits
    if tokens is not None and fits:
        shown = Detokenizer(tokenizer, shown=use.shown_tokens)
        parser = use.parser()
        assert parser is not None
        found = parser.push("".join(map(shown.push, tokens)))
        assert [call.name for call in (*found.calls, *parser.flush().calls)] == ["clock"]
        assert found.content == ""


def follow(matcher: Any, tokenizer: Tokenizer, text: str) -> list[int] | None:
    """The tokens that write ``text`` under the grammar, control tokens by their names; None when it refuses."""
    tokens: list[int] = []
    while text:
        fitting = [
            token
            for token in range(tokenizer.vocabulary_size)
            if tokenizer.token_bytes(token)
            and text.encode().startswith(tokenizer.token_bytes(token))
            and matcher.allows(token)
        ]
        if not fitting:
            return None
        token = max(fitting, key=lambda token: len(tokenizer.token_bytes(token)))
        matcher.accept(token)
        tokens.append(token)
        text = text.encode()[len(tokenizer.token_bytes(token)) :].decode()
    return tokens


def test_a_named_function_is_the_only_one_and_its_parameters_are_kept() -> None:
    tokenizer, template = with_control(), ChatTemplate(HERMES_TEMPLATE, {})
    named = {"type": "function", "function": {"name": "get_weather"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    for choice in (named, allowed):
        use = use_tools(template, tokenizer, USER, TOOLS, choice)
        assert use.grammar is not None
        assert use.names == {"get_weather"}
        assert use.tools == (TOOLS if choice is named else [WEATHER])
        for days, fits in ((2, True), (9, False)):
            body = json.dumps({"name": "get_weather", "arguments": {"city": "Rome", "days": days}})
            matcher = use.grammar.matcher(tokenizer, tokenizer.vocabulary_size)
            written = follow(matcher, tokenizer, f"<tool_call>\n{body}\n</tool_call>")
            assert (written is not None and matcher.accepting) is fits
    one = use_tools(template, tokenizer, USER, TOOLS, "required", parallel=False).grammar
    several = use_tools(template, tokenizer, USER, TOOLS, "required", parallel=True).grammar
    text = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
    for grammar, fits in ((one, False), (several, True)):
        assert grammar is not None
        matcher = grammar.matcher(tokenizer, tokenizer.vocabulary_size)
        assert (follow(matcher, tokenizer, f"{text}\n{text}") is not None) is fits


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"tools": [{"type": "function"}]}, r"tools\[0\]: "),
        ({"tools": [CLOCK, CLOCK]}, r"tools\[1\].function.name: .*'clock'"),
        ({"tool_choice": "always"}, "tool_choice: .*'always'"),
        ({"tool_choice": "required", "tools": []}, "tool_choice: expected tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice: .*'x'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            r"messages\[0\].content\[0\]: ",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}
                ]
            },
            r"messages\[0\].tool_calls\[0\].function.arguments: expected a JSON object",
        ),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], where: str) -> None:
    request: dict[str, Any] = {"messages": USER, "tools": TOOLS} | change
    with pytest.raises(OptionError, match=where):
        use_tools(ChatTemplate(HERMES_TEMPLATE, {}), with_control(), **request)


def test_parameters_that_are_no_schema_fail_the_request() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {}}}}
    tokenizer = with_control()
    use = use_tools(ChatTemplate(HERMES_TEMPLATE, {}), tokenizer, USER, [tool], "required")
    assert use.grammar is not None
    with pytest.raises(GrammarError, match="not"):
        use.grammar.matcher(tokenizer, tokenizer.vocabulary_size)


def described(index: int, parameters: int) -> dict[str, Any]:
    """A tool as people write them: most of its text is for the model to read."""
    kinds: list[dict[str, Any]] = [
        {"type": "string", "examples": ["Rome", "Paris"]},
        {"type": "integer"},
        {"enum": ["a", "b"]},
    ]
    properties = {
        f"parameter_{i}": {**kinds[i % 3], "title": f"Parameter {i}", "description": "What it is for. " * 12}
        for i in range(parameters - 1)
    }
    properties["description"] = {"type": "string", "description": "A parameter of that name."}
    schema = {"type": "object", "properties": properties, "required": ["parameter_0"]}
    return {"type": "function", "function": {"name": f"tool_{index}", "parameters": schema}}


@pytest.mark.parametrize(("count", "parameters"), [(128, 6), (40, 20)])
def test_as_many_tools_as_clients_send_can_be_required(count: int, parameters: int) -> None:
    tokenizer = with_control()
    tools = [described(index, parameters) for index in range(count)]
    use = use_tools(ChatTemplate(HERMES_TEMPLATE, {}), tokenizer, USER, tools, "required")
    assert use.grammar is not None
    assert "What it is for" not in use.grammar.text
    assert Grammar.from_dict(use.grammar.as_dict()) == use.grammar
    for arguments, fits in (
        ({"parameter_0": "x"}, True),
        ({"parameter_0": "x", "description": "y"}, True),
        ({"parameter_0": "x", "description": 1}, False),
    ):
        body = json.dumps({"name": f"tool_{count - 1}", "arguments": arguments})
        matcher = use.grammar.matcher(tokenizer, tokenizer.vocabulary_size)
        assert (follow(matcher, tokenizer, f"<tool_call>\n{body}\n</tool_call>") is not None) is fits


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(40):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        (DEEP, r"tools\[1\]\.function\.parameters: expected at most 32 levels"),
        ({"not": {}}, r"tools\[1\]\.function\.parameters: .*not"),
        ({"$ref": "#/$defs/nowhere"}, r"tools\[1\]\.function\.parameters: .*nowhere"),
        ({"properties": {"x": {"const": "x" * 300_000}}}, r"tools: expected at most 262144 characters"),
    ],
)
def test_an_error_names_the_tool_whose_parameters_cannot_be_kept(
    parameters: dict[str, Any], where: str
) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    tokenizer = with_control()

    def compile_call() -> None:
        use = use_tools(
            ChatTemplate(HERMES_TEMPLATE, {}), tokenizer, USER, [CLOCK, tool, WEATHER], "required"
        )
        assert use.grammar is not None
        use.grammar.matcher(tokenizer, tokenizer.vocabulary_size)

    with pytest.raises(GrammarError, match=where):
        compile_call()


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"opening": '"', "closing": "", "form": "free", "parallel": True, "calls": {"0": {}}},
        {"opening": "", "closing": "", "form": "bare", "parallel": True, "calls": {}},
        {"opening": "", "closing": "", "form": "bare", "parallel": True, "calls": {"0: x\nstart": {}}},
        {"opening": None, "closing": "", "form": "bare", "parallel": True, "calls": {"0": {}}},
    ],
)
def test_a_stored_grammar_of_tools_holds_nothing_but_schemas(stored: dict[str, Any]) -> None:
    with pytest.raises(GrammarError, match="tools: expected"):
        Grammar.from_dict({"kind": "tools", "text": json.dumps(stored)})


def test_content_is_text_however_it_is_given() -> None:
    assert text_of("a") == text_of([{"type": "text", "text": "a"}]) == "a"
    assert text_of(None) == text_of([]) == ""

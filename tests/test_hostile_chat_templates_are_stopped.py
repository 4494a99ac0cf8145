"""A template from an untrusted file reaches nothing of Python and cannot use up time or memory."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from verispec.errors import ArtifactError, OptionError
from verispec.text.chat_template import ChatTemplate
from verispec.text.template_sandbox import FILTERS, TemplateSandbox

HELLO = [{"role": "user", "content": "hello"}]

ESCAPES = {
    "classes of a text": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "classes by filter": "{{ ''|attr('__class__') }}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "code of a macro": "{% macro m() %}{% endmacro %}{{ m.__call__.__func__.__code__ }}",
    "format strings": "{{ '{0.__class__}'.format(messages) }}",
    "format maps": "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "changing messages": "{{ messages.append(1) }}",
    "clearing messages": "{{ messages[0].clear() }}",
    "including files": "{% include '/etc/passwd' %}",
    "importing files": "{% import '/etc/passwd' as x %}",
    "extending files": "{% extends '/etc/passwd' %}",
    "a namespace's internals": "{% set n = namespace() %}{% set n.__class__ = 1 %}",
    "a namespace's internals by name": "{{ namespace(__class__='x') }}",
    "the context": "{{ self.__init__.__globals__ }}",
    "lipsum": "{{ lipsum.__globals__ }}",
    "cycler": "{{ cycler.__init__ }}",
    "map to a missing filter": "{{ ['a'] | map('center', 9) | list }}",
    "the clock's internals": "{{ strftime_now.__self__ }}",
}


def growing(start: str, step: str) -> str:
    """A template that takes ``step`` on ``n.s`` many times."""
    return f"{{% set n = namespace(s={start}) %}}{{% for a in range(99) %}}{step}{{% endfor %}}"


SLOW = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops over text": "{% set s = 'x' * 9999 %}{% for a in s %}{% for b in s %}{% endfor %}{% endfor %}",
    "loops over filters": "{% for a in range(999) %}{{ range(999)|map('int')|sum }}{% endfor %}",
    "recursive loops": "{% for a in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
    "recursive macros": "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
}

LARGE = {
    "huge range": "{% for a in range(10 ** 9) %}{% endfor %}",
    "huge list": "{{ range(10 ** 9) | list }}",
    "huge repetition": "{{ 'x' * 10 ** 9 }}",
    "huge repetition of lists": "{{ [0] * 10 ** 9 }}",
    "repetition by a negative count": "{{ 'x' * -5 ~ 'x' * 10 ** 10 }}",
    "doubling by +": growing("'xx'", "{% set n.s = n.s + n.s %}"),
    "doubling by ~": growing("'xx'", "{% set n.s = n.s ~ n.s %}"),
    "doubling by blocks": growing("'xx'", "{% set b %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = b %}"),
    "doubling by join": growing("'xx'", "{% set n.s = [n.s, n.s]|join %}"),
    "doubling lists": growing("[1]", "{% set n.s = n.s + n.s %}"),
    "squaring by replace": "{% set s = 'x' * 99999 %}{{ s.replace('x', s) }}",
    "squaring by the replace filter": "{% set s = 'x' * 99999 %}{{ s | replace('x', s) }}",
    "squaring by join method": "{% set s = 'x' * 99999 %}{{ s.join(s) }}",
    "squaring by join filter": "{% set s = 'x' * 99999 %}{{ s | join(s) }}",
    "output in a loop": "{% set s = 'x' * 999 %}{% for a in range(99999) %}{{ s }}{% endfor %}",
    "powers": "{{ 9 ** 9 ** 9 }}",
    "power by loops": growing("3", "{% set n.s = n.s * n.s %}"),
    "padding by method": "{{ 'x'.center(10 ** 9) }}{{ 'x'.ljust(10 ** 9) }}{{ 'x'.zfill(10 ** 9) }}",
    "padding by operator": "{{ '%1000000000d' % 1 }}",
    "indenting": "{{ 'x\nx' | indent(10 ** 9) }}",
    "indenting by text": "{{ 'x\nx' | indent('y' * 999999) | indent('y' * 999999) | indent('y' * 999999) }}",
    "indenting JSON": "{{ [[1]] | tojson(indent=10 ** 9) }}",
    "batches": "{{ [1] | batch(10 ** 9, 0) | list }}",
    "slices": "{{ [1] | slice(10 ** 9) | list }}",
    "tabs": "{{ '\t'.expandtabs(10 ** 9) }}",
    "nested calls": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "nested blocks": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
}


@pytest.mark.parametrize("name", ESCAPES)
def test_nothing_of_python_is_reached(name: str) -> None:
    try:
        text = ChatTemplate(ESCAPES[name], {}).render(HELLO)
    except (OptionError, ArtifactError):
        return
    assert "class" not in text
    assert "built" not in text
    assert HELLO == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("name", [*SLOW, *LARGE])
def test_time_is_bounded(name: str) -> None:
    started = time.process_time()
    with pytest.raises((OptionError, ArtifactError)):
        ChatTemplate((SLOW | LARGE)[name], {}).render(HELLO)
    assert time.process_time() - started < 15  # seconds; a quiet machine needs under one


@pytest.mark.parametrize("name", LARGE)
def test_memory_is_bounded(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((OptionError, ArtifactError)):
            ChatTemplate(LARGE[name], {}).render(HELLO)
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


def test_long_conversations_are_no_attack() -> None:
    lines = "{% for line in m.content.split('\n') %}{{ line | trim }}{% endfor %}"
    text = "{% for m in messages %}" + lines + "{% endfor %}"
    messages = [{"role": "user", "content": "some words\n" * 1000}] * 40
    assert len(ChatTemplate(text, {}).render(messages)) == 40 * 1000 * 10


def test_every_listed_filter_exists() -> None:
    assert TemplateSandbox().filters.keys() >= FILTERS

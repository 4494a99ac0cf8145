"""Texts that tokenisers disagree on: scripts, code, emoji, spaces, control characters, and random ones."""

from __future__ import annotations

import random

SENTENCES = """\
The quick brown fox jumps over the lazy dog.
It's John's book, isn't it? They'll say we've won; I'd agree, you're right, I'M SURE HE'S HERE.
Über die Brücke ging ein großer Fuchs, „nämlich" schnell.
L'été dernier, où étais-tu ? Ça m'a plu — vraiment… déjà-vu !
¿Dónde está la biblioteca? ¡Qué rápido corrió el ñandú!
Съешь же ещё этих мягких французских булок, да выпей чаю.
Ο γρήγορος αλεπού πηδάει πάνω από τον τεμπέλη σκύλο.
我能吞下玻璃而不伤身体。他说:“你好,世界!”
私はガラスを食べられます。それは私を傷つけません。カタカナとひらがな、漢字。
나는 유리를 먹을 수 있어요. 그래도 아프지 않아요.
मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती.
আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না।
நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது.
నేను గాజు తినగలను మరియు అలా చేసినా నాకు ఏమి ఇబ్బంది లేదు
ฉันกินกระจกได้ แต่มันไม่ทำให้ฉันเจ็บ
أنا قادر على أكل الزجاج و هذا لا يؤلمني. ١٢٣٤٥
אני יכול לאכול זכוכית וזה לא מזיק לי.
من می‌توانم بدون احساس درد شيشه بخورم ۰۱۲۳
Tôi có thể ăn thủy tinh mà không hại gì.
Zażółć gęślą jaźń. Příliš žluťoučký kůň. Árvíztűrő tükörfúrógép.
Pijamalı hasta yağız şoföre çabucak güvendi. İIıi
ქართული ენა და ჰაი. Հայերեն լեզու։ ᚠᛇᚻ᛫ᛒᛦᚦ
ខ្ញុំអាចញុំកញ្ចក់បាន ကျွန်တော် ຂ້ອຍກິນແກ້ວໄດ້ བོད་སྐད།
የአማርኛ ቋንቋ ⵜⴰⵎⴰⵣⵉⵖⵜ ᓀᐦᐃᔭᐍᐏᐣ ᏣᎳᎩ
Ǆ ǅ ǆ ŉ ﬁ ﬂ ß ẞ ĳ Å Å é é Å ậ ậ
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 ①②③ Ⅷ ½ ¾ ² ³ ₁₂ ٣ ௧௨ 〇一二
x² + y² = z², ∑ᵢ aᵢ ≤ ∞, ∀ε>0 ∃δ, A ⊂ B ∪ C, √2 ≈ 1.41421356
1234567890 3.14159 1,000,000 2024-01-31T12:34:56Z 0xDEADBEEF 1e-10 192.168.0.1
😀😃😄 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷🇯🇵 ❤️ ☎︎ ⌚️ 🧑🏿‍🚀
🤖🦀🐍 :-) ;) ^_^ (╯°□°)╯︵ ┻━┻ ¯\\_(ツ)_/¯
https://example.org/path?q=a%20b&lang=en#frag user.name+tag@mail.example.co.uk
C:\\Users\\me\\file.txt /usr/local/bin ~/.bashrc $HOME ${PATH} `ls -la` | grep "x" > out.txt 2>&1
"quotes" 'single' `back` “curly” ‘one’ «guillemets» 「かぎ」 <angle> {brace} [square] (round)
!!!! ???? .... ,,,, ---- ____ **** #### @@@@ %%%% &&&& ++++ ==== ~~~~ ^^^^ |||| ;;;; ::::
hahahahahaha lololololol nananananana ababababab aaaaaaaaaaaaaaaaaaaaaaa zzz xyxyxyxyx
camelCaseIdentifier snake_case_name SCREAMING_SNAKE kebab-case-name HTTPServer2Client iPhone15ProMax
antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis Donaudampfschifffahrtsgesellschaft
I ' m 'tis 'twas rock'n'roll o'clock 'S 'LL 'Ve ''' '' 'x
<|im_start|>user\\nHi<|im_end|> <|endoftext|> <bos><eos><pad><unk> <start_of_turn> </s> <s> [INST]
<table><tr><td>1</td></tr></table> <b>bold</b> <h1>Title</h1><br/> &nbsp;&amp; <!-- c --> <div class="x">
text>▁</b> ▁ ▁▁ a▁b ▁x▁ _ ▂
"""

CODE = [
    "def f(x: int) -> int:\n    if x > 0:\n        return x * f(x - 1)\n    return 1\n",
    'for (int i = 0; i < n; ++i) {\n\tprintf("%d\\n", a[i]);\n}\n',
    'fn main() {\n    let v: Vec<u8> = vec![1, 2, 3];\n    println!("{:?}", v);\n}\n',
    '{"key": [1, 2.5, null, true], "nested": {"a": "\\u00e9\\n"}}',
    "SELECT * FROM t WHERE a='x' AND b >= 10 ORDER BY c DESC;\r\n-- comment\r\n",
    "#include <stdio.h>\r\n\r\nint main(void)\r\n{\r\n    return 0;\r\n}\r\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nprint('hi')\n```\n",
    "\\begin{equation}\n  E = mc^2 \\label{eq:1}\n\\end{equation}\n",
    "a=1;b=2;;c=a+b//2**3!=4<=5>=6<<7>>8&&9||10->x=>y::z..=w?:#@$%^&*~`",
    "<html>\n<head><title>t</title></head>\n<body>\n\t<p>hi</p>\n</body>\n</html>\n",
]

SPACES = [
    "",
    " ",
    "  ",
    "   ",
    " a",
    "a ",
    " a ",
    "  a  b   c    d     e",
    "\n",
    "\n\n",
    "\n\n\n\n",
    "a\nb",
    "a \nb",
    "a\n b",
    "a\n\n\n b",
    "a \n \n b",
    "\t",
    "\t\t\t",
    "a\tb",
    "a \t b",
    "\r",
    "\r\n",
    "a\r\nb\r\n\r\nc",
    "\n \n\t\n",
    " " * 31,
    " " * 32,
    " " * 33,
    " " * 64 + "x",
    "\n" * 31,
    "\n" * 32,
    "\n" * 65,
    "\t" * 40,
    "x" + " " * 100 + "y",
    "\u00a0",
    "a\u00a0b",
    "\u3000a\u3000",
    "\u2003\u2009x\u200b\u200dy\u2028z\u2029\u0085",
    "\u202fx\u1680y\ufeff",
    "\v\f",
    "a\vb\fc",
]

CONTROLS = [
    "\x00",
    "a\x00b",
    "\x01\x02\x03",
    "\x07\x08\x1b[31mred\x1b[0m",
    "\x7f\x80\x9f",
    "\x04\x06\x13\x14\x16\x1d",  # bytes some vocabularies lack
    "\ufffd\ufffe\uffff",
    "\U0010ffff\U000e0001\U0001f3f4\U000e0067",
    "\ue000\uf8ff",
    "\u0301\u0308e\u0301",
    "Z̸̗̀a̷̾l̵̈g̶͝o̴",
    "\u202eright to left\u202c \u2066x\u2069",
    "\u00ad\u034f\u180e\u2060",
    "\u1100\u1161\u11a8 \uac01",
    "\U00020000\U0002a6d6 \U00030000",
    "\U0001d165\U00010348\U0001f9ff\U0001fac0\U0001fae8",
]

PIECE_LINES = (  # cut at single spaces: some pieces are white space themselves
    "a e th ing ▁ the er \n \t 's ' 1 23 456 . , ! ? - _ = < > </ |> <| ha na xx == -- // **",
    "中 文 字 の は か 가 나 é ü ß я ж ا ب ה क ् า 👍 🏽 \u200d ❤ \ufe0f \xa0 \u3000 \r \0 A B OK Mc",
)
PIECES = " ".join(PIECE_LINES).split(" ")


def texts() -> list[str]:
    """The fixed part: every sentence, all code, all space and control cases."""
    lines = SENTENCES.splitlines()
    joined = ["\n".join(lines), " ".join(lines[:8]), "".join(lines[7:11])]
    return [*lines, *CODE, *SPACES, *CONTROLS, *joined]


def random_texts(count: int, seed: int = 7) -> list[str]:
    """``count`` random texts: any code points, code points of one block, and clashing pieces."""
    generator = random.Random(seed)
    makers = (_any_characters, _one_block, _clashing_pieces, _repeated)
    return [makers[index % len(makers)](generator) for index in range(count)]


def _any_characters(generator: random.Random) -> str:
    limits = (0x80, 0x800, 0x3000, 0x10000, 0x110000)
    codes = (generator.randrange(generator.choice(limits)) for _ in range(generator.randint(1, 30)))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def _one_block(generator: random.Random) -> str:
    start = generator.choice(
        (0x20, 0xA0, 0x370, 0x400, 0x590, 0x900, 0xE00, 0x1100, 0x3040, 0x4E00, 0xAC00, 0x1F300)
    )
    return "".join(
        generator.choice(" \n") if generator.random() < 0.15 else chr(start + generator.randrange(0x100))
        for _ in range(generator.randint(1, 40))
    )


def _clashing_pieces(generator: random.Random) -> str:
    return "".join(generator.choice([*PIECES, " ", "  "]) for _ in range(generator.randint(1, 30)))


def _repeated(generator: random.Random) -> str:
    unit = "".join(generator.choice(PIECES) for _ in range(generator.randint(1, 4)))
    return unit * generator.randint(2, 20) + generator.choice(PIECES)

"""Golden values for the tokenizer and chat-template wrapper, from tokenizers and transformers.

Writes, under src/tokens/fixtures/, three tiny byte-level BPE checkpoints without weights:

  chatml/   Qwen's pre-tokenizer and NFC; a ChatML template with a default system message and reasoning tags that
            are not special, inside tokenizer_config.json
  headers/  Llama 3's pre-tokenizer (digits by threes); a template with a beginning-of-text token, trimmed messages
            and role headers, in chat_template.jinja

  digits/   SmolLM2's pre-tokenizer (each digit apart, then GPT-2's pattern), with the ChatML template

each with golden.json: texts and their ids, ids and their texts, chats with their rendering and ids.
Run: python test/golden/tokenizer.py
"""

import json
import os
import shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

FIXTURES = Path(__file__).resolve().parents[2] / "src" / "tokens" / "fixtures"

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CORPUS = """
Maya has 12 apples and gives 5 of them to Tom. How many apples does she have left? 12 - 5 = 7, so she has 7 apples.
Each box holds 24 pencils. Three boxes hold 3 * 24 = 72 pencils. The answer is \\boxed{72}.
A train goes 60 miles in an hour. In 2.5 hours it goes 60 * 2.5 = 150 miles. #### 150
The copies read the board, and each of them writes what it believes. One note says 41, the others say 42.
I don't agree with the second note: it adds where it should multiply. They're close, but we'll check it again.
First find the cost of one ticket. Then multiply by the number of tickets. The total is $1,250.00.
Let x be the number of days; then 4x + 3 = 19, and x = 4. It's 4 days.
def total(prices):\n    return sum(prices)\n\nprint(total([1, 2, 3]))
Ein Zug fährt über die Brücke. Où est la bibliothèque? ¿Cuántas manzanas quedan? Привет, мир. 数学の問題です。
""".strip()

TEXTS = [
    "",
    "Maya has 12 apples.",
    "The answer is \\boxed{1234567}.",
    "  two  spaces   three\ttab\n\n\nlines \n",
    "don't DON'T we'll they'Re I'm",
    "fährt über die Brücke, Où? 数学 Привет",
    "cafe\u0301 vs caf\u00e9, \u212b and \u00c5",
    "emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 flags \U0001f1eb\U0001f1f7",
    "\u00a0no-break\u2003em\u3000ideographic\u0085next\ufefffeff",
    "x=1;y=22;z=333;w=4444 0.5e-3 1,000,000",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0967\u0968\u0969 \u2167 \u00bd \u00b2",
    "#### 150",
    "ate \u00be of 12\u00bd pizzas, x\u00b2 \u2167 \u0967\u0968",
    "a" * 40,
]

CHATS = [
    [{"role": "user", "content": "How many apples?"}],
    [{"role": "system", "content": "You solve problems."}, {"role": "user", "content": "What is 3 * 24?"}],
    [
        {"role": "system", "content": "Read the board."},
        {"role": "user", "content": "Note 1: 41\nNote 2: 42\n\nWhich?"},
        {"role": "assistant", "content": "42"},
        {"role": "user", "content": "Are you sure?"},
    ],
    [{"role": "user", "content": "\n\n  leading and trailing white space  \n"}],
    [{"role": "user", "content": "a < b, b > c, a | b, <b>bold</b>, {{ not a template }} {% raw %}"}],
    [{"role": "user", "content": ""}],
]

CHATML = """{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are careful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message['role'] + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

HEADERS = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start|>' ~ message.role ~ '<|end|>\\n\\n' ~ (message.content | trim) ~ '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}
"""


def train(specials: list[str], numbers: str, normalizer, vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT % numbers), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS.split("\n"), trainer)
    return tokenizer


def write(name: str, tokenizer: PreTrainedTokenizerFast, template: str, inline: bool, eos: list[int]) -> None:
    folder = FIXTURES / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder, save_jinja_files=not inline)
    vocab_size = len(tokenizer) + 8  # real checkpoints pad their embedding too
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": vocab_size, "eos_token_id": eos[0]}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}))

    loaded = AutoTokenizer.from_pretrained(folder)
    encode = lambda text: loaded(text, add_special_tokens=False)["input_ids"]
    cut = encode("emoji \U0001f600 and é")
    token_lists = [encode(text) for text in TEXTS[1:]] + [cut[:-1], cut[:4], cut[3:], [0, *cut, 1, 2], eos]
    chats = []
    for messages in CHATS:
        rendered = loaded.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = loaded.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        chats.append({"messages": messages, "rendered": rendered, "ids": ids})
    golden = {
        "stop": sorted({*eos, loaded.eos_token_id}),
        "encode": [{"text": text, "ids": encode(text)} for text in TEXTS],
        "decode": [
            {"ids": ids, "text": loaded.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)}
            for ids in token_lists
        ],
        "chats": chats,
    }
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    for path in sorted(folder.iterdir()):
        assert path.stat().st_size < 60_000
        print(f"{path.stat().st_size:8d} {path.relative_to(FIXTURES)}")


def main() -> None:
    raw = train(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], r"\p{N}", normalizers.NFC(), 480)
    raw.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    chatml = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    write("chatml", chatml, CHATML, inline=True, eos=[2, 0])

    raw = train(["<|begin|>", "<|start|>", "<|end|>", "<|eot|>"], r"\p{N}{1,3}", None, 400)
    raw.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]),
        ]
    )
    headers = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<|begin|>", eos_token="<|eot|>", clean_up_tokenization_spaces=False
    )
    write("headers", headers, HEADERS, inline=False, eos=[3])


    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Signs that share their first byte with fractions, so that a space and that byte are merged: glued to the space, a
    # fraction would lose its first byte to it.
    signs = "cost \u00a3 a \u00a7 of \u00b0 and \u00b1 or \u00b5 to \u00b6 at \u00b7 in \u00bb on \u00ab"
    raw.train_from_iterator([*CORPUS.split("\n"), *[signs] * 9], trainer)
    digits = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|endoftext|>", clean_up_tokenization_spaces=False
    )
    write("digits", digits, CHATML, inline=True, eos=[2])


if __name__ == "__main__":
    main()

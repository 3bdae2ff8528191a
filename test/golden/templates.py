"""Golden values for chat templates and their arguments, and for tokens named in special_tokens_map.json.

Writes src/tokens/fixtures/variants.json: changes to the files of the fixtures that tokenizer.py makes, and what
transformers then gives for some chats. The template of `qwen3` is Qwen3's own; the others show one habit each.
Run after tokenizer.py: python test/golden/templates.py
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import AutoTokenizer

FIXTURES = Path(__file__).resolve().parents[2] / "src" / "tokens" / "fixtures"

QWEN3 = (Path(__file__).parent / "qwen3.jinja").read_text()

# DeepSeek-R1's distilled models: the prompt itself opens the thought, and earlier thoughts are left out.
OPENS_THOUGHT = """{{- bos_token or '' }}
{%- for message in messages %}
    {%- if message.role == 'assistant' and '</think>' in message.content %}
        {{- '<|im_start|>assistant\\n' + message.content.split('</think>')[-1] + '<|im_end|>' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' }}
{%- endif %}
"""

# Llama 3.1's way to ask whether there are tools, and what is trimmed.
ASKS_FOR_TOOLS = """{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if documents is not none and documents is defined %}
    {{- "Documents\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n" }}
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' }}
    {{- '[' + message.content.strip() + '|' + message.content.lstrip('\\n') + '|' + message.content.rstrip('ab ') + ']' }}
{%- endfor %}
"""

CHATS = [
    [{"role": "user", "content": "How many apples?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 3 * 24?"}],
    [
        {"role": "user", "content": "What is 3 * 24?"},
        {"role": "assistant", "content": "\n  It is 72."},
        {"role": "user", "content": "Are you sure?"},
    ],
    # White space to Python and not to JavaScript, and the other way about.
    [{"role": "user", "content": "\x1f\x85\n  \ufeff text ab\u2003\x1c"}],
]

VARIANTS = [
    ("qwen3", "chatml", {"chat_template.jinja": QWEN3}, [{}, {"enable_thinking": False}, {"enable_thinking": True}]),
    ("opens its thought", "chatml", {"chat_template.jinja": OPENS_THOUGHT}, [{}]),
    ("asks for tools", "chatml", {"chat_template.jinja": ASKS_FOR_TOOLS}, [{}, {"date_string": "1 May 2025"}]),
    (
        "named in a file of their own",
        "headers",
        {
            "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|start|>"},
            "special_tokens_map.json": {
                "bos_token": {"content": "<|begin|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False},
                "eos_token": "<|eot|>",
            },
        },
        [{}],
    ),
    (
        "named where a newer file is whole",
        "headers",
        {
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "added_tokens_decoder": {},
                "bos_token": "<|begin|>",
                "eos_token": "<|eot|>",
            },
            "special_tokens_map.json": {"bos_token": "<|start|>", "eos_token": "<|end|>"},
        },
        [{}],
    ),
]


def variant(name: str, base: str, files: dict, arguments: list[dict]) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        shutil.copytree(FIXTURES / base, folder)
        for file, content in files.items():
            (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        cases = []
        for given in arguments:
            for messages in CHATS:
                options = dict(add_generation_prompt=True, **given)
                cases.append(
                    {
                        "arguments": given,
                        "messages": messages,
                        "rendered": tokenizer.apply_chat_template(messages, tokenize=False, **options),
                        "ids": tokenizer.apply_chat_template(messages, return_dict=False, **options),
                    }
                )
        return {
            "name": name,
            "base": base,
            "files": files,
            "bos": tokenizer.bos_token_id,
            "eos": tokenizer.eos_token_id,
            "cases": cases,
        }


if __name__ == "__main__":
    found = [variant(*row) for row in VARIANTS]
    (FIXTURES / "variants.json").write_text(json.dumps(found, indent=1) + "\n")

"""What Hugging Face's own trainer and tokenizers make of a small text, for the tests of src/tokens/bpe.ts.

    pip install -r test/golden/requirements.txt && python test/golden/bpe.py

Writes src/tokens/fixtures/bpe.json: texts, the vocabulary and merges learned from them, and the ids of samples.
"""

import json
import pathlib

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

texts = [
    "Mia has 12 apples and buys 3 bags with 8 apples each.\nHow many apples does Mia have now?",
    "First 3*8=24.\nThen 12+24=36.\nSo \\boxed{36}",
    "Tom's sister doesn't sell 105 cards; she gives them away. They've 7 left!",
    "The caf\u00e9 sells na\u00efve tea for 4 \u20ac.  Two spaces,\ttabs\n\n\nand blank lines \U0001f600 too.",
    "apples apple cards card cards bags bag",
] * 3
samples = texts[:5] + ["", " ", "  lead and trail  ", "\u0663\u0664 \u2167 x\u00b2", "it'll we're I'm", "a\r\nb\u00a0c", "<|im_end|>"]
specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(
    texts,
    trainers.BpeTrainer(
        vocab_size=400,
        min_frequency=2,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    ),
)
model = json.loads(tokenizer.to_str())["model"]
fixture = {
    "tokenizers": tokenizers.__version__,
    "texts": texts,
    "vocabSize": 400,
    "specials": specials,
    "vocab": sorted(model["vocab"], key=model["vocab"].get),
    "merges": [list(m) if isinstance(m, list) else m.split(" ") for m in model["merges"]],
    "samples": [{"text": text, "ids": tokenizer.encode(text).ids} for text in samples],
}
target = pathlib.Path(__file__).parents[2] / "src/tokens/fixtures/bpe.json"
target.write_text(json.dumps(fixture) + "\n")
print(f"{target}: {len(fixture['vocab'])} tokens")

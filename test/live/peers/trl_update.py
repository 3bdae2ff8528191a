"""One GRPO update by TRL on a small random model, with everything that another program needs to make the same one.

    python test/live/peers/trl_update.py < request.json

TRL samples the rollouts and pays them by a rule that has nothing to do with language; written down are the prompts, the
completions, the rewards, the loss, and the logits of the updated model. Groups are micro-batches of their own, as in
the reference experiment: a problem's loss is divided by that problem's tokens.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from datasets import Dataset
from peft import PeftModel
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

# A token that the model often samples, so that completions differ in length, and which begins no other token's name.
END = 53


def tokenizer_of(size: int) -> PreTrainedTokenizerFast:
    """Tokens t0, t1, ... apart by spaces: TRL takes prompts as text alone."""
    raw = Tokenizer(models.WordLevel({f"t{i}": i for i in range(size)}, unk_token="t0"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=f"t{END}", pad_token="t0", padding_side="left")


def reward(completion_ids, **_) -> list[float]:
    return [float(sum(ids) % 2) for ids in completion_ids]


class Recording(GRPOTrainer):
    """Keeps the rollouts of each group, as they go into the loss."""

    groups: list[dict] = []

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        rollouts = []
        for i in range(len(output["prompt_ids"])):
            kept = lambda part: output[f"{part}_ids"][i][output[f"{part}_mask"][i].bool()].tolist()
            rollouts.append({"prompt": kept("prompt"), "completion": kept("completion")})
        rewards = reward([r["completion"] for r in rollouts])
        self.groups.append({"rollouts": rollouts, "rewards": rewards, "advantages": output["advantages"].tolist()})
        return output


def main() -> None:
    request = json.load(sys.stdin)
    torch.set_num_threads(1)
    base = AutoModelForCausalLM.from_pretrained(request["folder"], dtype=torch.float32, attn_implementation="eager")
    model = PeftModel.from_pretrained(base, request["adapter"], is_trainable=True)
    with tempfile.TemporaryDirectory() as scratch:
        args = GRPOConfig(
            output_dir=scratch,
            seed=17,
            max_steps=1,
            per_device_train_batch_size=request["copies"],
            num_generations=request["copies"],
            gradient_accumulation_steps=len(request["prompts"]),
            steps_per_generation=1,
            num_iterations=1,
            max_completion_length=request["newTokens"],
            temperature=request["temperature"],
            top_p=1.0,
            top_k=0,
            loss_type="bnpo",
            scale_rewards="none",
            beta=0.0,
            epsilon=request["clipLow"],
            epsilon_high=request["clipHigh"],
            learning_rate=request["adam"]["learningRate"],
            adam_beta1=request["adam"]["beta1"],
            adam_beta2=request["adam"]["beta2"],
            adam_epsilon=request["adam"]["epsilon"],
            weight_decay=request["adam"]["weightDecay"],
            max_grad_norm=request["adam"]["maxGradNorm"],
            lr_scheduler_type="linear",
            warmup_steps=0,
            bf16=False,
            fp16=False,
            gradient_checkpointing=False,
            disable_dropout=True,
            use_cpu=True,
            report_to=[],
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        )
        texts = [" ".join(f"t{token}" for token in prompt) for prompt in request["prompts"]]
        trainer = Recording(
            model=model,
            args=args,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict({"prompt": texts}),
            processing_class=tokenizer_of(base.config.vocab_size),
        )
        trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    updated = trainer.model.eval()
    sequences = [r["prompt"] + r["completion"] for group in trainer.groups for r in group["rollouts"]]
    with torch.no_grad():
        found = {
            str(i): updated(input_ids=torch.tensor([ids]), use_cache=False).logits[0].contiguous()
            for i, ids in enumerate(sequences)
        }
    save_file(found, request["tensors"])
    answer = {"groups": trainer.groups, "loss": logged["loss"], "gradNorm": logged["grad_norm"], "sequences": sequences}
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()

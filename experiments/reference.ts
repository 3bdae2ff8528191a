// The experiment that this project reproduces: do readers that see all notes end up better than readers that see their own?
// Qwen2.5-1.5B-Instruct on GSM8K, two arms, two seeds. On a GPU: npx message-board run experiments/reference.ts --device cuda
import { defineExperiment, grpo, gsm8k, own, shared } from 'message-board'

export default defineExperiment({
  model: 'Qwen/Qwen2.5-1.5B-Instruct',
  task: gsm8k({ train: 512, holdout: 120 }),
  board: { copies: 4, noteTokens: 256, replyTokens: 384, readTokens: 1536 },
  arms: { baseline: { reads: own }, recipe: { reads: shared } },
  train: grpo({ steps: 40, problemsPerStep: 12, learningRate: 1e-4, lora: { rank: 32, alpha: 64 } }),
  seeds: [17, 18],
})

/**
 * A training loop of one's own: play boards, pay each text, turn what it earned into advantages, take a step. Run it with
 *
 *   npx tsx training-loop.ts [STEPS]
 */
import {
  clues,
  countEpisodes,
  defineExperiment,
  groupsOf,
  mathGrader,
  openEngine,
  playPolicy,
  policyBatch,
} from 'message-board'

const steps = Number(process.argv[2] ?? 10)

// An experiment names the model, its engine and the protocol; nothing of it is run here.
const experiment = defineExperiment({ task: clues({ train: 512, holdout: 60 }) })
const { protocol } = experiment.arms.recipe
const { train, holdout } = await experiment.task.load()

const engine = await openEngine(experiment)
const policy = await engine.createPolicy({ lora: { rank: 16, alpha: 32, seed: 17 } })
const author = { policy, tokenizer: engine.tokenizer, contextLength: engine.contextLength }

/** Plays the protocol on problems. What is drawn depends on the seed alone; top-p 1, since the loss scores all tokens. */
const playOn = (problems: typeof train, seed: (string | number)[]) =>
  playPolicy(author, problems, {
    protocol,
    sampling: protocol.rounds.map(({ maxTokens }) => ({ maxTokens, temperature: 0.9, topP: 1 })),
    grader: mathGrader,
    seed,
  })

async function evaluate(name: string) {
  const { played } = await playOn(holdout, ['evaluation'])
  const { rounds } = countEpisodes(played.map(({ episode }) => episode))
  console.log(`${name}: notes ${rounds[0].right.toFixed(3)} right, replies ${rounds[1].right.toFixed(3)}`)
}

await evaluate('before')
for (let step = 0; step < steps; step++) {
  const problems = Array.from({ length: 12 }, (_, i) => train[(12 * step + i) % train.length])
  const { played } = await playOn(problems, ['training', step])

  // A number for each post. Any rule will do: here a post earns 1 where its own answer is right.
  const credits = played.map(({ episode }) =>
    episode.rounds.map((posts) => posts.map(({ correct }) => Number(correct))),
  )
  const groups = groupsOf(protocol, played, credits)
  const batch = protocol.rounds.flatMap((_, round) =>
    policyBatch(groups.filter((group) => group.round === round)),
  )
  if (batch.length > 0) {
    const clip = { clipLow: 0.2, clipHigh: 0.28, temperature: 0.9 }
    const { loss } = await policy.forwardBackward(batch, { kind: 'policy_gradient', ...clip })
    const adam = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 }
    await policy.optimStep({ learningRate: 1e-3 * (1 - step / steps), ...adam })
    const right = countEpisodes(played.map(({ episode }) => episode)).rounds[1].right
    console.log(`step ${step + 1}: replies ${right.toFixed(3)} right, loss ${loss.toFixed(4)}`)
  }
}
await evaluate('after')
await engine.close()

/**
 * Servers that answer oddly: an OpenAI-compatible endpoint, and one of the Tinker API, behind a proxy that changes, cuts
 * and holds back what they say. Nothing of it may end in a stack or a hang, reach another server, or show a key.
 */
import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { play as playBoards } from '../../src/board/play.ts'
import { resolveProtocol } from '../../src/board/protocol.ts'
import { board } from '../../src/board/protocols.ts'
import { openEndpoint } from '../../src/endpoint/chat.ts'
import { completion, startChatServer } from '../../src/endpoint/testing/chat-server.ts'
import { openEndpointWriter } from '../../src/endpoint/writer.ts'
import { adamStep, policyLoss } from '../../src/engine/testing/update.ts'
import { openTinkerEngine } from '../../src/engine/tinker/index.ts'
import { simulate } from '../../src/engine/tinker/testing/server.ts'
import { mathGrader } from '../../src/grade/grader.ts'
import { type Random, random } from '../../src/random.ts'
import { writeTinyModel } from '../../src/selftest/tiny-model.ts'
import { type HostileProxy, startHostileProxy, wayOfRound, ways } from './hostile-proxy.ts'
import { type Campaign, campaign, type Extent, isProgram, main, type Outcome } from './rounds.ts'

const secret = 'sk-never-to-be-told'
const names = Object.keys(ways).slice(1)

/** No key and no content came to the other server. */
function checkStrayed({ strayed }: HostileProxy): void {
  for (const { method, headers, body } of strayed) {
    const told = JSON.stringify(headers)
    if (
      method !== 'GET' ||
      body !== '' ||
      told.includes(secret) ||
      headers.authorization ||
      headers['x-api-key']
    ) {
      throw new Error(`another server was told: ${method} ${told} ${body.slice(0, 100)}`)
    }
  }
}

async function endpointRound(stream: Random, folder: string, happens: () => void): Promise<Outcome> {
  const right = await startChatServer(() => completion('It is \\boxed{4}.'))
  const wayOf = wayOfRound(stream, names)
  let isHostile = true
  const proxy = await startHostileProxy(right.url, stream, (asked) => {
    happens()
    return isHostile ? wayOf(asked) : 'right'
  })
  const answers = join(folder, 'answers.jsonl')
  const play = async () => {
    const endpoint = openEndpoint({
      url: `${proxy.url}/v1`,
      model: 'm',
      key: secret,
      retries: { attempts: 3, delay: 1, timeout: 300 },
    })
    const budget = 100_000
    const writer = await openEndpointWriter({ endpoint, identity: ['m'], concurrency: 4, answers, budget })
    const sampling = { maxTokens: 30, temperature: 1, topP: 1 }
    const problems = [1, 2].map((i) => ({ id: `p${i}`, question: `What is ${i} + ${i}?`, gold: `${2 * i}` }))
    try {
      const { played } = await playBoards(
        writer.write,
        problems.map((problem) => ({ problem })),
        {
          protocol: resolveProtocol(board(), { copies: 2, noteTokens: 30, replyTokens: 30 }),
          sampling: [sampling, sampling],
          grader: mathGrader,
          seed: ['evaluation', 1],
        },
      )
      const posts = played.flatMap(({ episode }) => episode.rounds.flat())
      if (posts.length !== 8 || posts.some(({ tokens }) => !(tokens >= 0 && tokens < 1e10))) {
        throw new Error(`the boards are not whole: ${JSON.stringify(posts).slice(0, 300)}`)
      }
      const { tokens, flawed } = writer.spent()
      if (!(tokens >= 0)) throw new Error(`${tokens} tokens were paid for`)
      return flawed.limit + flawed.filter + flawed.nothing > 0 ? 'fine, with empty texts' : 'fine'
    } finally {
      await writer.close()
    }
  }
  try {
    const outcome = await play()
      .then((kind): Outcome => ({ kind }))
      .catch((error: Error): Outcome => {
        if (error.name !== 'UserError') throw error
        return { kind: 'refused', said: error.message }
      })
    checkStrayed(proxy)
    for (const line of (await readFile(answers, 'utf8')).split('\n').filter(Boolean)) {
      if (JSON.parse(line).text.trim() === '') throw new Error('an empty answer is kept')
    }
    // What is kept is of use: with the right server the same goes on to its end.
    isHostile = false
    if (!(await play()).startsWith('fine')) throw new Error('it does not go on')
    return { ...outcome, kind: `endpoint: ${outcome.kind}` }
  } finally {
    await proxy.close()
    await right.close()
  }
}

async function tinkerRound(
  stream: Random,
  folder: string,
  tokenizer: string,
  happens: () => void,
): Promise<Outcome> {
  const right = await simulate({ model: 'tiny', key: secret, places: 1 + stream.int(3), holds: 50 })
  const wayOf = wayOfRound(stream, names)
  const proxy = await startHostileProxy(right.url, stream, (asked) => {
    happens()
    return wayOf(asked)
  })
  const lora = { rank: 2, alpha: 32, seed: 1 }
  const saved = join(folder, 'saved')
  const work = async () => {
    const engine = await openTinkerEngine({
      urls: [proxy.url],
      model: 'tiny',
      tokenizer,
      key: secret,
      attempts: 3,
      delay: 1,
      poll: 200,
      patience: 1000,
    })
    try {
      const policy = await engine.createPolicy({ lora })
      const options = { maxTokens: 4, temperature: 1, topP: 1, stop: [2] }
      const [samples] = await policy.sample([{ prompt: [5, 6], seeds: [1, 2] }], options)
      const batch = samples.map(({ tokens, logprobs }) => ({
        prompt: [5, 6],
        completion: tokens,
        logprobs,
        advantages: tokens.map(() => 1),
      }))
      const found = [...batch.flatMap(({ logprobs }) => logprobs)]
      const { loss } = await policy.forwardBackward(batch, policyLoss())
      const { gradNorm } = await policy.optimStep(adamStep())
      await policy.save(saved)
      for (const row of await policy.logprobs(batch, { temperature: 1 })) found.push(...row)
      if ([...found, loss].some((value) => !Number.isFinite(value)) || gradNorm < 0) {
        throw new Error(`odd numbers came through: ${[...found, loss, gradNorm].join(' ')}`)
      }
      policy.dispose()
      return { kind: 'tinker: fine' }
    } finally {
      await engine.close()
    }
  }
  try {
    const outcome = await work().catch((error: Error): Outcome => {
      if (error.name !== 'UserError') throw error
      return { kind: 'tinker: refused', said: error.message }
    })
    checkStrayed(proxy)
    return outcome
  } finally {
    await proxy.close()
    await right.close()
  }
}

export async function hostileServers(extent: Extent): Promise<Campaign> {
  return campaign({
    ...extent,
    secrets: [secret],
    async round(number, folder, happens) {
      const stream = random('hostile-server', extent.seed, number)
      if (number % 2 === 0) return endpointRound(stream, folder, happens)
      const tokenizer = join(folder, 'model')
      await writeTinyModel(tokenizer, 1)
      await access(tokenizer)
      return tinkerRound(stream, folder, tokenizer, happens)
    },
  })
}

if (isProgram(import.meta.url)) await main(import.meta.url, 1000, hostileServers)

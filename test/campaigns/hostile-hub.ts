/**
 * A hub that answers oddly, or a network's own page in its place: what is brought from it is what it should be, or is
 * refused in a sentence. Nothing is written outside the cache, and the token goes to nobody else.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locateModel } from '../../src/hub/locate.ts'
import { startFakeHub } from '../../src/hub/testing/fake-hub.ts'
import { random } from '../../src/random.ts'
import { writeTinyModel } from '../../src/selftest/tiny-model.ts'
import { startHostileProxy, wayOfRound, ways } from './hostile-proxy.ts'
import { type Campaign, campaign, type Extent, isProgram, main, type Outcome } from './rounds.ts'

const token = 'hf_never-to-be-told'
const commit = 'a'.repeat(40)
const names = Object.keys(ways).slice(1)

export async function hostileHubs(extent: Extent): Promise<Campaign> {
  const folder = await mkdtemp(join(tmpdir(), 'campaign-model-'))
  await writeTinyModel(folder, 3)
  const files = Object.fromEntries(
    await Promise.all(
      (await readdir(folder)).map(async (name) => [name, await readFile(join(folder, name))] as const),
    ),
  )
  const hub = await startFakeHub([
    { type: 'model', name: 'tests/tiny', refs: { main: commit }, commits: { [commit]: files }, token },
  ])
  const round = async (number: number, cache: string, happens: () => void): Promise<Outcome> => {
    const stream = random('hostile-hub', extent.seed, number)
    const wayOf = wayOfRound(stream, names)
    let isHostile = true
    const proxy = await startHostileProxy(hub.endpoint, stream, (asked) => {
      happens()
      return isHostile ? wayOf(asked) : 'right'
    })
    const locate = async (offline: boolean) => {
      const settings = { endpoint: proxy.url, cache, token, offline }
      const found = await locateModel('tests/tiny', {
        settings,
        retries: { attempts: 3, delay: 1, timeout: 300 },
      })
      for (const name of await readdir(found.folder)) {
        if (!files[name]?.equals(await readFile(join(found.folder, name)))) {
          throw new Error(`${name} is not what the hub has`)
        }
      }
      return 'fine'
    }
    const orRefused = (work: Promise<string>) =>
      work
        .then((kind): Outcome => ({ kind }))
        .catch((error: Error): Outcome => {
          if (error.name !== 'UserError') throw error
          return { kind: 'refused', said: error.message }
        })
    hub.asked.length = 0
    try {
      const outcome = await orRefused(locate(false))
      const told = JSON.stringify([
        proxy.strayed,
        hub.asked.filter(({ origin }) => origin === 'storage').map(({ authorization }) => authorization),
      ])
      if (told.includes(token)) throw new Error(`another server was told the token: ${told}`)
      // What came in is of use without a network, or is said to be in part.
      await orRefused(locate(true))
      // And the right hub brings the rest.
      isHostile = false
      await locate(false)
      return outcome
    } finally {
      await proxy.close()
    }
  }
  try {
    return await campaign({ ...extent, secrets: [token], round })
  } finally {
    await hub.close()
    await rm(folder, { recursive: true })
  }
}

if (isProgram(import.meta.url)) await main(import.meta.url, 1000, hostileHubs)

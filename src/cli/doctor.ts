/** `message-board doctor`: the facts of this machine that decide what can run on it. */
import { availableParallelism, cpus, freemem, totalmem } from 'node:os'
import { fingerprint } from '../engine/checkpoint/fingerprint.ts'
import { builtInModel, defineExperiment } from '../experiment/config.ts'
import { versions } from '../experiment/engine.ts'
import { print, printJson } from './terminal.ts'

/** The least that the default experiment needs, in GiB. */
const NEEDED_GIB = 2.5

interface Fact {
  name: string
  /** False where the default experiment could not run. */
  ok: boolean
  detail: string
}

/** True when the default experiment can run here. */
export async function doctorCommand({ json }: { json?: boolean }): Promise<boolean> {
  const runtime = await engine()
  const facts = [
    node(),
    processor(),
    memory(),
    runtime,
    ...(runtime.ok ? await devicesHere() : []),
    await policy(),
  ]
  const ok = facts.every((fact) => fact.ok)
  if (json) printJson({ ok, facts })
  else {
    for (const fact of facts) {
      print(`${fact.ok ? 'ok  ' : 'FAIL'}  ${fact.name.padEnd(16)} ${fact.detail}\n`)
    }
    print(ok ? '\nThe default experiment runs here: message-board run\n' : '\nFix what FAILs first.\n')
  }
  return ok
}

function node(): Fact {
  const [major, minor] = process.versions.node.split('.').map(Number)
  const ok = major > 20 || (major === 20 && minor >= 19)
  return { name: 'node', ok, detail: `${process.version}${ok ? '' : ': install Node 20.19 or later'}` }
}

function processor(): Fact {
  const model = cpus()[0]?.model ?? 'unknown'
  return { name: 'processor', ok: true, detail: `${model}, ${availableParallelism()} threads to use` }
}

function memory(): Fact {
  const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1)
  const ok = totalmem() / 2 ** 30 >= NEEDED_GIB
  return {
    name: 'memory',
    ok,
    detail: `${gib(totalmem())} GiB, ${gib(freemem())} free${ok ? '' : `: ${NEEDED_GIB} are needed`}`,
  }
}

async function engine(): Promise<Fact> {
  try {
    await import('onnxruntime-node')
    const version = versions(defineExperiment())['onnxruntime-node']
    return { name: 'onnxruntime-node', ok: true, detail: version }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { name: 'onnxruntime-node', ok: false, detail: `does not load (${why}): run npm install again` }
  }
}

/** The experiment needs the CPU alone: a GPU that does not work is no failure. */
async function devicesHere(): Promise<Fact[]> {
  const { devices, probe } = await import('../engine/onnx/device.ts')
  const facts: Fact[] = []
  for (const device of devices) {
    const { found, detail } = await probe(device)
    const works = found === null ? `not here: ${detail}` : `works, ${detail}`
    facts.push({ name: `device ${device}`, ok: found !== null || device !== 'cpu', detail: works })
  }
  return facts
}

async function policy(): Promise<Fact> {
  try {
    return { name: 'built-in policy', ok: true, detail: (await fingerprint(builtInModel)).slice(0, 12) }
  } catch {
    return { name: 'built-in policy', ok: false, detail: `not found at ${builtInModel}: install again` }
  }
}

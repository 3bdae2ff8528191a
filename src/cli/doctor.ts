/** `message-board doctor`: the facts of this machine that decide what can run on it. */
import { availableParallelism, cpus, freemem, totalmem } from 'node:os'
import { fingerprint } from '../engine/checkpoint/fingerprint.ts'
import { probe } from '../engine/onnx/device.ts'
import { type Device, devices, isHost } from '../engine/onnx/devices.ts'
import { nativeInstall, nativeProblem, runtimePackages, runtimeVersion } from '../engine/onnx/runtime.ts'
import { builtInModel } from '../platform/machine.ts'
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
  const facts = [node(), processor(), memory(), runtime(), ...(await devicesHere()), await policy()]
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

/** WebAssembly takes the native runtime's place where that does not load. */
function runtime(): Fact {
  const name = runtimePackages.native
  const problem = nativeProblem()
  if (problem === null) return { name, ok: true, detail: runtimeVersion('native') }
  return {
    name,
    ok: true,
    detail: `not here (${problem}): WebAssembly computes, some three times slower; ${nativeInstall()} brings it`,
  }
}

/** The experiment needs the processor alone, by one runtime or the other: a GPU that does not work is no failure. */
async function devicesHere(): Promise<Fact[]> {
  const probes = await Promise.all(devices.map(probe))
  const works = (device: Device) => probes.some((each) => each.device === device && each.found !== null)
  return probes.map(({ device, found, detail }) => ({
    name: `device ${device}`,
    ok: !isHost(device) || works('cpu') || works('wasm'),
    detail: found === null ? `not here: ${detail}` : `works, ${detail}`,
  }))
}

async function policy(): Promise<Fact> {
  try {
    return { name: 'built-in policy', ok: true, detail: (await fingerprint(builtInModel)).slice(0, 12) }
  } catch {
    return { name: 'built-in policy', ok: false, detail: `not found at ${builtInModel}: install again` }
  }
}

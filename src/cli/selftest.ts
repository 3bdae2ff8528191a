/** `message-board selftest`: runs the checks and prints one line for each. */
import type { Device } from '../engine/onnx/devices.ts'
import { selftest } from '../selftest/index.ts'
import { print, printJson } from './terminal.ts'

export interface SelftestFlags {
  device?: Device | 'auto'
  json?: boolean
}

/** True when all passed. */
export async function selftestCommand({ device, json }: SelftestFlags): Promise<boolean> {
  const checks = await selftest(device)
  const passed = checks.every((check) => check.passed)
  if (json) printJson({ passed, checks })
  else {
    for (const check of checks) {
      print(`${check.passed ? 'ok  ' : 'FAIL'}  ${check.name.padEnd(28)} ${check.detail}\n`)
    }
  }
  return passed
}

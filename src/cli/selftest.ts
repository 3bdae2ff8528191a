/** `message-board selftest`: runs the checks and prints one line for each. */
import { selftest } from '../selftest/index.ts'

/** True when all passed. */
export async function selftestCommand({ json }: { json?: boolean }): Promise<boolean> {
  const checks = await selftest()
  const passed = checks.every((check) => check.passed)
  if (json) process.stdout.write(`${JSON.stringify({ passed, checks }, null, 2)}\n`)
  else {
    for (const check of checks) {
      process.stdout.write(`${check.passed ? 'ok  ' : 'FAIL'}  ${check.name.padEnd(18)} ${check.detail}\n`)
    }
  }
  return passed
}

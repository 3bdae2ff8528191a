/**
 * The package as a stranger installs it, on Linux: packed, put into empty projects, and used there. Needs the registry, and
 * takes minutes; CI runs it after the tests.
 *
 *     npx tsx test/install.ts
 *
 *   plain       npm install, scripts and all, with no network but npm's cache: whatever an install script wants to fetch
 *               is refused, and the install ends well
 *   no scripts  npm install --ignore-scripts: the native runtime, as far as its package carries it
 *   wasm        npm install --omit=optional: no native runtime at all
 *   next npm    with npm 12, which runs no package's script unless told
 *
 * Each plays the self-test and a cut-down run; the types are checked strictly, by three ways to resolve modules and without
 * Node's types; Node 22 and 24 play the self-test too.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const scratch = mkdtempSync(join(tmpdir(), 'install-'))
/** Bytes of the package at most. */
const LARGEST = 6e6

// The checkout's own settings, which npm hands on to whatever it starts, are not a stranger's.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function call(cwd: string, command: string, ...args: string[]): string {
  return execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

/** An empty project with the package in it, put there by `install`. */
function project(name: string, install: readonly string[]): string {
  const folder = join(scratch, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{ "name": "stranger", "private": true, "type": "module" }\n')
  const [command, ...args] = install
  call(folder, command, ...args)
  return folder
}

const bin = 'node_modules/message-board/dist/cli/main.js'

function use(folder: string, node = process.execPath): void {
  call(folder, node, bin, 'selftest')
}

function play(folder: string): { versions: Record<string, string>; failed: unknown[] } {
  const sizes = ['--train', '24', '--holdout', '4', '--steps', '1', '--seeds', '17']
  call(folder, process.execPath, bin, 'run', '--task', 'clues', ...sizes, '--out', 'runs/first')
  return JSON.parse(readFileSync(join(folder, 'runs/first/results.json'), 'utf8'))
}

function expectThat(holds: boolean, what: string): void {
  if (!holds) throw new Error(`not so: ${what}`)
  say(`ok  ${what}`)
}

try {
  call(root, 'npm', 'pack', '--ignore-scripts', '--pack-destination', scratch)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const tarball = join(scratch, `message-board-${version}.tgz`)
  const { size } = statSync(tarball)
  expectThat(size <= LARGEST, `the package has ${(size / 1e6).toFixed(1)} MB`)
  expectThat(!/\.map$/m.test(call(scratch, 'tar', 'tzf', tarball)), 'it carries no source maps')

  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  const bare = project('no-scripts', ['npm', 'install', '--ignore-scripts', ...quiet, tarball])
  use(bare)
  const native = play(bare)
  expectThat(
    native.failed.length === 0 && 'onnxruntime-node' in native.versions,
    'without scripts it computes natively',
  )

  // A network of its own that leads nowhere: npm's cache alone answers.
  const walled = ['unshare', '--map-root-user', '--net', 'npm', 'install', '--offline', ...quiet, tarball]
  use(project('plain', walled))
  say('ok  with every address refused it installs, scripts and all, and passes its self-test')

  const wasm = project('wasm', ['npm', 'install', '--omit=optional', ...quiet, tarball])
  const played = play(wasm)
  expectThat(
    played.failed.length === 0 && 'onnxruntime-web' in played.versions,
    'without a native runtime it computes by WebAssembly',
  )

  use(project('next-npm', ['npx', '--yes', 'npm@12', 'install', ...quiet, tarball]))
  say('ok  npm 12 installs it')

  writeFileSync(
    join(bare, 'use.ts'),
    `import { board, defineExperiment, leaveOneOut, shared, wordProblems } from 'message-board'
import { openEngine, runExperiment } from 'message-board/browser'

export const experiment = defineExperiment({
  task: wordProblems({ train: 8, holdout: 2 }),
  arms: { baseline: {}, writers: { protocol: board({ reads: shared }), credit: leaveOneOut({ by: 'rescore' }) } },
})
export const run = async (): Promise<number> => {
  const engine = await openEngine({ lanes: 1 })
  const { contrasts } = await runExperiment(experiment, { out: '/runs/mine', engine })
  return contrasts[0].delta
}
`,
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  for (const [module, resolution] of [
    ['esnext', 'bundler'],
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
  ]) {
    const options = [
      '--strict',
      '--noEmit',
      '--skipLibCheck',
      'false',
      '--target',
      'es2023',
      '--lib',
      'es2023,dom',
    ]
    call(
      bare,
      process.execPath,
      tsc,
      ...options,
      '--types',
      '',
      '--module',
      module,
      '--moduleResolution',
      resolution,
      'use.ts',
    )
    say(`ok  its types are whole under ${resolution}`)
  }

  for (const major of [22, 24]) {
    const folder = join(scratch, `node-${major}`)
    mkdirSync(folder)
    call(folder, 'npm', 'install', '--no-save', ...quiet, `node@${major}`)
    const node = join(folder, 'node_modules/node/bin/node')
    use(bare, node)
    say(`ok  Node ${call(folder, node, '--version').trim()} runs it`)
  }
} catch (error) {
  const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string }
  process.stderr.write(`${message}\n${stdout}${stderr}`)
  process.exitCode = 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}

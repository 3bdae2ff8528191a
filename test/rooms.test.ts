/**
 * The house: files under src/ lie in rooms, and a room knows the ones below it alone. Imports of types count: whoever
 * moves a type has to open the file that uses it. Tests and `testing/` may import from anywhere.
 *
 * Where the order differs from what a first guess would say:
 * - `hub` is low: it brings files by name, whatever they are. What makes a checkpoint one is handed to it as a check, so
 *   that `tasks`, which come from the hub too, need no engine.
 * - `grade` is below `tasks`: a task reads the gold answer of a worked solution as the verifier would.
 * - `engine` is below `board`: a policy writes for a seat through the contract alone (see the second test).
 * - `endpoint` is above `board`: it is another writer.
 * - `stats` knows numbers alone and could lie anywhere; it is below `record`, whose results hold its intervals.
 * - `platform` is where the machine begins: what there is of Node and of a browser is asked for there.
 * - `playground` is a page of its own: over `browser`, which computes, and `web`, whose views it shows.
 * - `publish` is above `experiment`, whose record says where an adapter lies; `exports` needs the record alone.
 * - `report` and `view` are below `experiment`, which writes a run's pages at its end; `web` is a page that they carry.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

/** From the ground up; those of one line do not know each other. */
const floors = [
  ['errors', 'random', 'printable', 'bytes'],
  ['platform', 'text-file'],
  ['files', 'http'],
  ['sealed', 'address'],
  ['keyed-lines'],
  ['tokens', 'stats'],
  ['hub', 'grade'],
  ['engine', 'tasks'],
  ['board'],
  ['train', 'endpoint', 'selftest'],
  ['record'],
  ['view', 'log'],
  ['report'],
  ['web', 'experiment', 'exports'],
  ['serve', 'browser', 'publish'],
  ['index', 'cli', 'playground'],
]

const root = fileURLToPath(new URL('../src', import.meta.url))

/** The files that each file imports, both by their paths from src/. */
const imports = new Map(
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path) && !/\.test\.tsx?$|\.d\.ts$|\/testing\//.test(path))
    .map((path): [string, string[]] => [
      path,
      importsOf(readFileSync(join(root, path), 'utf8')).map((to) =>
        relative(root, join(root, dirname(path), to)),
      ),
    ]),
)

/** What a file imports from other files of the project: `from '...'`, `import '...'` and `import('...')`. */
function importsOf(source: string): string[] {
  return [...source.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^'\n]*\.tsx?)'/g)].map(([, path]) => path)
}

const roomOf = (path: string) => path.split('/')[0].replace(/\.ts$/, '')
const floorOf = (room: string) => floors.findIndex((rooms) => rooms.includes(room))

it('reads imports of each form', () => {
  const source =
    "import { a } from './a.ts'\nexport type * from '../b.ts'\nimport './c.ts'\nawait import('./d.tsx')\nimport e from 'e'"
  expect(importsOf(source)).toEqual(['./a.ts', '../b.ts', './c.ts', './d.tsx'])
  expect([...imports.values()].flat().length).toBeGreaterThan(400)
})

it('has a floor for each room', () => {
  expect([...imports.keys()].map(roomOf).filter((room) => floorOf(room) < 0)).toEqual([])
})

it('leads from no room to one as high or higher', () => {
  const up = [...imports].flatMap(([from, all]) =>
    all
      .filter((to) => roomOf(from) !== roomOf(to) && floorOf(roomOf(to)) >= floorOf(roomOf(from)))
      .map((to) => `${from} imports ${to}`),
  )
  expect(up).toEqual([])
})

it('lets boards and training see the contract of engines alone', () => {
  const others = [...imports].flatMap(([from, all]) =>
    ['board', 'train'].includes(roomOf(from))
      ? all
          .filter((to) => roomOf(to) === 'engine' && to !== 'engine/contract.ts')
          .map((to) => `${from}: ${to}`)
      : [],
  )
  expect(others).toEqual([])
})

it('has no circle of files', () => {
  const done = new Set<string>()
  const circles: string[] = []
  const visit = (path: string, way: readonly string[]): void => {
    const at = way.indexOf(path)
    if (at >= 0) circles.push([...way.slice(at), path].join(' > '))
    if (at >= 0 || done.has(path)) return
    for (const next of imports.get(path) ?? []) visit(next, [...way, path])
    done.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
  expect(circles).toEqual([])
})

/** Where Node's own modules, `process` and `Buffer` may be used: what a browser has a sibling for, or nothing of. */
const node = [
  /^platform\//,
  /^(cli|serve|endpoint|hub|log|selftest)\//,
  /^http\.ts$/,
  /^engine\/tinker\//,
  /^engine\/onnx\/(device|native|runtime|threads)\.ts$/,
  /^engine\/onnx\/gpu\//,
  /^record\/lock\.ts$/,
  /^report\/built\.ts$/,
]
const usesNode = (path: string): boolean =>
  /from 'node:|import\('node:|\bprocess\.|\bBuffer\b|\bsetImmediate\b/.test(codeOf(path))

it('keeps Node out of the rooms that run in a browser', () => {
  const found = [...imports.keys()].filter((path) => usesNode(path) && !node.some((room) => room.test(path)))
  expect(found).toEqual([])
})

it('leads a browser to nothing of Node', () => {
  const reached = new Set<string>()
  const visit = (path: string): void => {
    const sibling = path.replace(/\.ts$/, '.web.ts')
    const file = imports.has(sibling) ? sibling : path
    if (reached.has(file)) return
    reached.add(file)
    for (const next of valueImportsOf(codeOf(file))) visit(relative(root, join(root, dirname(file), next)))
  }
  visit('browser.ts')
  visit('engine/onnx/worker.ts')
  visit('playground/main.tsx')
  visit('playground/worker.ts')
  expect(reached.size).toBeGreaterThan(100)
  expect([...reached].filter(usesNode)).toEqual([])
})

/** A file without its comments. */
const codeOf = (path: string): string =>
  readFileSync(join(root, path), 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')

/** What is imported when it runs: types are gone by then. */
const valueImportsOf = (source: string): string[] =>
  importsOf(source.replace(/^(import|export) type [^;]*? from '[^']*'$/gm, ''))

/** The experiment that a command is about: the built-in one, or one written in a TypeScript file. */
import { existsSync } from 'node:fs'
import { register } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { UserError } from '../errors.ts'
import { defineExperiment, type Experiment } from '../experiment/config.ts'

/** This package's own entry, from source or built, whichever runs. */
const entry = new URL(`../index${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url).href

/**
 * Module hooks: `message-board` is this package, wherever the experiment file lies; and that file is an ES module even
 * in a package that does not say so, or in none.
 */
const hooks = `data:text/javascript,${encodeURIComponent(`
  let entry, file
  export function initialize(data) { ({ entry, file } = data) }
  export async function resolve(specifier, context, next) {
    if (specifier === 'message-board') return next(entry, context)
    const found = await next(specifier, context)
    return found.url.split('?')[0] === file ? { ...found, format: 'module' } : found
  }
`)}`

/**
 * The built-in experiment without a file; else what the file exports as its default, made by defineExperiment.
 *
 * @throws UserError for a file that is not there, does not load, or exports something else.
 */
export async function experimentOf(path: string | undefined): Promise<Experiment> {
  if (path === undefined) return defineExperiment()
  if (!/\.[cm]?[jt]s$/.test(path)) {
    throw new UserError(
      `${path} is no experiment file: give a TypeScript or JavaScript file, the folder of a run, or neither.`,
    )
  }
  const file = resolve(path)
  if (!existsSync(file)) throw new UserError(`There is no experiment file at ${path}: check the path.`)
  const { tsImport } = await import('tsx/esm/api')
  register(hooks, { parentURL: import.meta.url, data: { entry, file: pathToFileURL(file).href } })
  let loaded: { default?: unknown }
  try {
    loaded = await tsImport(pathToFileURL(file).href, import.meta.url)
  } catch (error) {
    if (error instanceof Error && error.name === 'UserError') throw new UserError(`${path}: ${error.message}`)
    const why = error instanceof Error ? error.message : String(error)
    throw new UserError(`${path} does not load: ${why.replace(/\s*\n\s*/g, ' ')}`)
  }
  const experiment = loaded.default
  if (typeof experiment !== 'object' || experiment === null || !('choices' in experiment)) {
    throw new UserError(`${path} must have \`export default defineExperiment({ ... })\`.`)
  }
  return experiment as Experiment
}

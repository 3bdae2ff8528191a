/** Models by name: a checkpoint's folder, or a repository of the hub that is brought into the cache first. */
import { stat } from 'node:fs/promises'
import { UserError } from '../errors.ts'
import { tokenizerFiles } from '../tokens/file-names.ts'
import { type HubOptions, hubSettings, openRepository } from './repository.ts'

export interface LocatedModel {
  /** As an adapter's file names its base: the hub's id without a revision, or the folder. */
  name: string
  folder: string
  /** The commit of a hub's model; null for a folder. */
  commit: string | null
}

export interface DownloadProgress {
  name: string
  /** Bytes of the model's files that are here, and of all of them. */
  done: number
  total: number
}

export interface LocateOptions extends Partial<HubOptions> {
  /** Only what its tokenizer needs: the weights are elsewhere, and may be of any architecture. */
  tokenizerOnly?: boolean
  /** Looks at the model's config.json before its weights come, and throws where it is not supported. */
  check?: (config: string) => Promise<unknown>
  /** Told while something comes in. */
  onDownload?: (progress: DownloadProgress) => void
}

const hubName = /^([\w.-]+\/[\w.-]+)(?:@(.+))?$/

/**
 * Finds a model by its folder or by its id on the hub, `owner/name` or `owner/name@revision`; a folder of that name
 * goes first. Of a repository only what a model needs is downloaded, its configuration before its weights.
 *
 * @throws UserError for a name that means nothing, a model that cannot be had, or one that is not supported.
 */
export async function locateModel(model: string, options: LocateOptions = {}): Promise<LocatedModel> {
  const isFolder = await stat(model).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (isFolder) return { name: model, folder: model, commit: null }
  const [, name, revision = 'main'] = hubName.exec(model) ?? []
  if (name === undefined || /^\.+\//.test(name)) {
    throw new UserError(
      `There is no checkpoint in ${model}: give --model a folder in Hugging Face's layout (config.json, ` +
        'tokenizer.json, model.safetensors), or the name of a model on the hub, such as Qwen/Qwen2.5-1.5B-Instruct.',
    )
  }
  const {
    onDownload = () => {},
    tokenizerOnly = false,
    check,
    settings = await hubSettings(),
    ...rest
  } = options
  const repository = await openRepository({ type: 'model', name, revision }, { settings, ...rest })
  const sizes = new Map(repository.files.map(({ path, size }) => [path, size]))
  const wanted = tokenizerOnly ? settingsFiles([...sizes.keys()]) : modelFiles([...sizes.keys()])
  if (typeof wanted === 'string') {
    throw new UserError(
      repository.cached
        ? `The cache holds ${name} in part (${wanted}): run again with a network, without HF_HUB_OFFLINE.`
        : `${name} cannot be used (${wanted}): name a repository that holds a whole model as safetensors.`,
    )
  }
  const total = wanted.reduce((sum, path) => sum + (sizes.get(path) ?? 0), 0)
  let before = 0
  for (const path of wanted) {
    const file = await repository.fetch(path, (bytes) => onDownload({ name, done: before + bytes, total }))
    before += sizes.get(path) ?? 0
    // Of a model that is not supported, the weights need not come.
    if (path === 'config.json') await check?.(file)
  }
  return { name, folder: repository.folder, commit: repository.commit }
}

const weightsIndex = 'model.safetensors.index.json'
const shardName = /^model-(\d+)-of-(\d+)\.safetensors$/

/** The files of a model's tokenizer, its configuration first; or, in a few words, what is missing. */
function settingsFiles(paths: readonly string[]): string[] | string {
  if (!paths.includes('tokenizer.json')) return 'it has no tokenizer.json'
  const rest = tokenizerFiles.filter((path) => path !== 'config.json')
  return ['config.json', ...rest].filter((path) => paths.includes(path))
}

/**
 * The files of a model among those of its repository, the configuration first and the weights last; or, in a few
 * words, what is missing. Weights are safetensors or nothing: a pickle can run what it likes.
 */
export function modelFiles(paths: readonly string[]): string[] | string {
  if (!paths.includes('config.json')) return 'it has no config.json'
  const settings = settingsFiles(paths)
  if (typeof settings === 'string') return settings
  const shards = paths.filter((path) => shardName.test(path)).sort()
  const weights = paths.includes('model.safetensors') ? ['model.safetensors'] : shards
  if (weights.length === 0) return 'it has no model.safetensors; weights in other formats are never loaded'
  const count = Number(shardName.exec(weights[0])?.[2] ?? 1)
  if (weights.length !== count) return `it has ${weights.length} of ${count} files of weights`
  return [...settings, ...[weightsIndex].filter((path) => paths.includes(path)), ...weights]
}

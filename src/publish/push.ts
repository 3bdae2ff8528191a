/**
 * Puts a trained adapter of a finished run on the hub, with a model card written from what the run found. Through the
 * hub's own client; the token goes to the hub's own address and nowhere else. Reads the run folder, writes to the hub.
 */

import { commit, createRepo, HubApiError, modelInfo } from '@huggingface/hub'
import { z } from 'zod'
import { UserError } from '../errors.ts'
import { adapterFolder } from '../experiment/record.ts'
import { readJsonFile } from '../files.ts'
import { whyUnanswered } from '../http.ts'
import { type HubSettings, hubSettings } from '../hub/repository.ts'
import { readFile } from '../platform/files.ts'
import { join } from '../platform/path.ts'
import { shown } from '../printable.ts'
import { readRecord, readResults } from '../record/folder.ts'
import { readJob } from '../record/job-log.ts'
import { type Job, planJobs } from '../record/plan.ts'
import type { ArmRecord, RunRecord } from '../record/schema.ts'
import { modelCard } from './card.ts'

export interface PushOptions {
  /** The repository: owner/name. Made where it is not there. */
  repository: string
  /** Which training, such as recipe-s17; the only one unless told. */
  job?: string
  /** Which of several trained policies; the only one unless told. */
  policy?: string
  /** The base's name on the hub; as the run named it unless told. */
  baseModel?: string
  isPrivate?: boolean
  settings?: HubSettings
}

export interface Pushed {
  /** Where it is now. */
  url: string
  /** Null where nothing was to be changed. */
  commit: string | null
  files: string[]
}

const repositoryName = /^[\w.-]+\/[\w.-]+$/

/** @throws UserError for a run that is not finished, a name that means nothing, and a hub that refuses. */
export async function push(folder: string, options: PushOptions): Promise<Pushed> {
  const { repository, isPrivate = false } = options
  const settings = options.settings ?? (await hubSettings())
  if (!repositoryName.test(repository)) {
    throw new UserError(`${JSON.stringify(repository)} is no repository: give --to as owner/name.`)
  }
  if (settings.token === undefined) {
    throw new UserError('The hub asks for a token to write: set HF_TOKEN to one that may write.')
  }
  if (settings.offline) throw new UserError('HF_HUB_OFFLINE is set: unset it to push.')
  const record = await readRecord(folder)
  const results = await readResults(folder)
  if (results === null) {
    throw new UserError(
      `${folder} is not finished, and the card says what was found: run it to its end first.`,
    )
  }
  const job = trainingOf(record, options.job)
  const arm = record.identity.arms[job.arm]
  const policy = policyOf(arm, options.policy)
  const { progress } = await readJob(join(folder, job.name), { checkpoint: true })
  const root = adapterFolder(join(folder, job.name, `checkpoint-${progress.steps}`), policy, arm)
  const client = { ...clientOf(settings), accessToken: settings.token }
  const baseModel = await baseOf(arm.policies[policy].model, options.baseModel, client, settings)
  const adapter = await adapterFiles(root, baseModel)
  const card = modelCard({ repository, baseModel, arm: job.arm, policy, seed: job.seed, record, results })
  const files: Record<string, Blob> = { 'README.md': new Blob([card]), ...adapter }
  const repo = { type: 'model' as const, name: repository }
  try {
    await createRepo({ repo, visibility: isPrivate ? 'private' : 'public', ...client }).catch((error) => {
      // It is there already.
      if (!(error instanceof HubApiError && error.statusCode === 409)) throw error
    })
    const made = await commit({
      repo,
      title: `Upload ${job.name}`,
      operations: Object.entries(files).map(([path, content]) => ({
        operation: 'addOrUpdate' as const,
        path,
        content,
      })),
      // Plain uploads of a small adapter: nothing to be gained from splitting it.
      useXet: false,
      ...client,
    })
    return {
      url: `${settings.endpoint}/${repository}`,
      commit: made?.commit.oid ?? null,
      files: Object.keys(files),
    }
  } catch (error) {
    throw refused(error, repository, settings)
  }
}

/** The training of that name, or the only one. */
function trainingOf(record: RunRecord, name: string | undefined): Job & { seed: number } {
  const trained = planJobs(record).flatMap((job) => (job.seed === null ? [] : [{ ...job, seed: job.seed }]))
  const names = trained.map((job) => job.name).join(', ')
  if (name === undefined && trained.length > 1) {
    throw new UserError(`The run has ${trained.length} trainings: say which with --job (${names}).`)
  }
  const job = name === undefined ? trained[0] : trained.find((one) => one.name === name)
  if (!job) throw new UserError(`There is no training ${name} in this run: the trainings are ${names}.`)
  return job
}

function policyOf({ policies }: ArmRecord, name: string | undefined): string {
  const trained = Object.keys(policies).filter((policy) => policies[policy].trained)
  if (name === undefined && trained.length > 1) {
    throw new UserError(
      `The arm trains ${trained.length} policies: say which with --policy (${trained.join(', ')}).`,
    )
  }
  const policy = name === undefined ? trained[0] : trained.find((one) => one === name)
  if (policy === undefined) {
    throw new UserError(`The arm trains no policy ${name}: it trains ${trained.join(', ')}.`)
  }
  return policy
}

type Client = ReturnType<typeof clientOf> & { accessToken: string }

/** The base's name on the hub, as given or as the run named it; it must be there, since a folder may be called alike. */
async function baseOf(
  recorded: string,
  given: string | undefined,
  client: Client,
  settings: HubSettings,
): Promise<string> {
  const name = (given ?? recorded).replace(/@[^@/]*$/, '')
  const advice =
    'give --base-model, the name of the repository that holds it, such as Qwen/Qwen2.5-1.5B-Instruct'
  if (!repositoryName.test(name)) {
    throw new UserError(
      `The run's base model is ${JSON.stringify(name)}, which is no name on the hub: ${advice}.`,
    )
  }
  try {
    await modelInfo({ name, ...client })
  } catch (error) {
    if (error instanceof HubApiError && [401, 403, 404].includes(error.statusCode)) {
      throw new UserError(`The hub has no model ${name} that this token may see: ${advice}.`)
    }
    throw refused(error, name, settings)
  }
  return name
}

/** The adapter's two files, its base named as others can find it. */
async function adapterFiles(root: string, baseModel: string): Promise<Record<string, Blob>> {
  const config = await readJsonFile(
    join(root, 'adapter_config.json'),
    z.looseObject({ peft_type: z.string() }),
  )
  const weights = await readFile(join(root, 'adapter_model.safetensors'))
  const named = { ...config, base_model_name_or_path: baseModel }
  return {
    'adapter_config.json': new Blob([`${JSON.stringify(named, null, 2)}\n`]),
    'adapter_model.safetensors': new Blob([new Uint8Array(weights)]),
  }
}

/** Where the hub is, and requests that carry the token to no other place. */
function clientOf({ endpoint }: HubSettings) {
  const own = new URL(endpoint).origin
  const guarded: typeof fetch = (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const headers = new Headers(init.headers)
    if (url.origin !== own) headers.delete('Authorization')
    return fetch(input, { ...init, headers })
  }
  return { hubUrl: endpoint, fetch: guarded }
}

/** What the hub said, without the token, and what to do. */
function refused(error: unknown, name: string, { endpoint, token = '' }: HubSettings): unknown {
  if (error instanceof UserError) return error
  if (error instanceof HubApiError) {
    const said = shown(error.message, [token])
    const what =
      error.statusCode === 401 || error.statusCode === 403
        ? 'set HF_TOKEN to one that may write there'
        : error.statusCode >= 500
          ? 'try again later'
          : 'see what it says'
    return new UserError(`${endpoint} refused ${name} (${error.statusCode}: ${said}): ${what}.`)
  }
  if (error instanceof SyntaxError) {
    return new UserError(`${endpoint} gave no answer of a hub's API: check HF_ENDPOINT, or try again later.`)
  }
  if (error instanceof TypeError) {
    return new UserError(`${endpoint} cannot be reached (${whyUnanswered(error)}): try again later.`)
  }
  return error
}

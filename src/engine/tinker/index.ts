/**
 * The engine on servers of the Tinker API (the hosted service, or SkyRL on one's own GPUs): the model and its gradients
 * are there, the tokenizer is here. One server, or several as a fleet. Touches the network, and the tokenizer's files.
 */
import { join } from 'node:path'
import { z } from 'zod'
import { LostError, UserError } from '../../errors.ts'
import { readJsonFile } from '../../files.ts'
import { shown } from '../../printable.ts'
import { loadTokenizer, type TokenizerOptions } from '../../tokens/tokenizer.ts'
import type { Engine } from '../contract.ts'
import { type ClientOptions, openClient } from './client.ts'
import { openFleet } from './fleet.ts'
import { frozenPolicy } from './frozen.ts'
import { loraPolicy } from './policy.ts'
import { openServer, type Server } from './server.ts'
import { capabilitiesSchema } from './wire.ts'

export interface TinkerEngineOptions extends Omit<ClientOptions, 'url'>, TokenizerOptions {
  /** The servers' addresses, each with the same model. */
  urls: readonly string[]
  /** The model's name there. */
  model: string
  /** A folder with the model's tokenizer and config.json; no weights are needed. */
  tokenizer: string
}

/**
 * Opens the servers that answer.
 *
 * @throws UserError where none does, or where one does not have the model.
 */
export async function openTinkerEngine(options: TinkerEngineOptions): Promise<Engine> {
  const { urls, model, tokenizer: folder, template, ...client } = options
  const tokenizer = await loadTokenizer(folder, { template })
  const { onNotice = () => {} } = client
  const asked = await Promise.all(
    [...new Set(urls)].map(async (url) => {
      const server = openServer(openClient({ ...client, url }), model)
      try {
        const { supported_models: models } = await server.client.get(
          'get_server_capabilities',
          capabilitiesSchema,
        )
        const found = models.find(({ model_name }) => model_name === model)
        if (!found) {
          const names = models.flatMap(({ model_name }) => model_name ?? [])
          throw new UserError(
            `${server.client.url} does not serve ${model}, but ${shown(names.join(', ')) || 'nothing'}: give --model one of these.`,
          )
        }
        return { server, contextLength: found.max_context_length ?? undefined }
      } catch (error) {
        server.client.close()
        return { error }
      }
    }),
  )
  const servers: Server[] = []
  const limits: number[] = []
  const close = async () => {
    for (const { client } of servers) client.close()
  }
  for (const { server, contextLength } of asked) {
    if (!server) continue
    servers.push(server)
    if (contextLength !== undefined) limits.push(contextLength)
  }
  for (const { error } of asked) {
    if (error === undefined) continue
    // A server that is down is done without; anything else is a mistake to be told.
    if (!(error instanceof LostError) || servers.length === 0) {
      await close()
      throw error
    }
    onNotice(`${error.message} The run goes on without it.`)
  }
  const own = await contextLengthOf(folder)
  if (own !== undefined) limits.push(own)
  if (limits.length === 0) {
    await close()
    throw new UserError(
      `Neither the server nor ${join(folder, 'config.json')} says how long ${model}'s context is: give --tokenizer a ` +
        'folder that has config.json.',
    )
  }

  const fleet = openFleet(servers)
  return {
    info: {
      engine: 'tinker',
      device: servers.map(({ client }) => client.url).join(', '),
      model,
      parameters: 0,
      versions: {},
    },
    tokenizer,
    contextLength: Math.min(...limits),
    async createPolicy({ lora } = {}) {
      return lora === undefined ? frozenPolicy(fleet) : loraPolicy(fleet, model, lora)
    },
    async close() {
      await fleet.settled()
      await close()
    },
  }
}

const configSchema = z.looseObject({
  max_position_embeddings: z.number().int().positive().optional(),
  text_config: z.looseObject({ max_position_embeddings: z.number().int().positive().optional() }).optional(),
})

async function contextLengthOf(folder: string): Promise<number | undefined> {
  const config = await readJsonFile(join(folder, 'config.json'), configSchema, { optional: true })
  return config?.max_position_embeddings ?? config?.text_config?.max_position_embeddings
}

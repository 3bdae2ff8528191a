/**
 * What goes over the wire of the Tinker API, and the schemas that answers are held to. Fields that servers add and
 * this client does not read are let through. The reference is the official Python SDK's types. Pure.
 */
import { z } from 'zod'
import type { Tokens } from '../contract.ts'

/** Numbers of one dtype with their shape; all tensors of this API are one-dimensional here. */
export interface Tensor {
  data: number[]
  dtype: 'int64' | 'float32'
  shape: number[]
}

/** Floats are sent with nine digits, which is all that single precision tells apart. */
export const tensor = (dtype: Tensor['dtype'], data: readonly number[]): Tensor => ({
  data: dtype === 'int64' ? [...data] : data.map((value) => Number(value.toPrecision(9))),
  dtype,
  shape: [data.length],
})

export interface ModelInput {
  chunks: { type: 'encoded_text'; tokens: number[] }[]
}

export const modelInput = (tokens: Tokens): ModelInput => ({
  chunks: [{ type: 'encoded_text', tokens: [...tokens] }],
})

/** Position t of a datum scores token t + 1 of its sequence: all arrays are one shorter than the sequence. */
export interface Datum {
  model_input: ModelInput
  loss_fn_inputs: {
    target_tokens: Tensor
    /** cross_entropy only: the hosted service takes no weights beside advantages. */
    weights?: Tensor
    logprobs?: Tensor
    advantages?: Tensor
  }
}

export interface LossInput {
  data: Datum[]
  loss_fn: 'cross_entropy' | 'importance_sampling' | 'ppo' | 'cispo'
  loss_fn_config?: { clip_low_threshold: number; clip_high_threshold: number }
}

export interface AdamParams {
  learning_rate: number
  beta1: number
  beta2: number
  eps: number
  weight_decay: number
  /** 0: no clipping. */
  grad_clip_norm: number
}

export interface SamplingParams {
  max_tokens: number
  seed: number
  temperature: number
  top_p: number
  top_k: number
  stop: number[]
}

/** A name that a server gives to something of its own. */
const name = z.string().min(1).max(2000)
/** Of a token; in single precision, that of a sure one may be a little above 0. */
const logprob = z.number().max(1e-3)
/** What a server may leave out or get wrong without its answer being any worse. */
const lax = <T extends z.ZodType>(schema: T) => schema.nullish().catch(undefined)

/** An answer that only says that it has come. */
export const anySchema = z.looseObject({})

export const capabilitiesSchema = z.looseObject({
  supported_models: z.array(
    z.looseObject({ model_name: lax(z.string()), max_context_length: lax(z.number().int().positive()) }),
  ),
})

export const sessionSchema = z.looseObject({
  session_id: name,
  info_message: lax(z.string()),
  warning_message: lax(z.string()),
  error_message: lax(z.string()),
})

/** What most calls answer: the number under which the result can be had. */
export const promiseSchema = z.looseObject({ request_id: name })

export const createModelSchema = promiseSchema.extend({ model_id: lax(name) })

/** The result of create_model. SkyRL says the adapter's alpha; the SDK's type has only the model's id. */
export const createdSchema = z.looseObject({
  model_id: name,
  lora_config: z
    .looseObject({ alpha: z.number().positive().nullish(), rank: z.number().positive().nullish() })
    .nullish(),
})

const logprobs = z.looseObject({ data: z.array(logprob) })

export const lossSchema = z.looseObject({
  loss_fn_outputs: z.array(z.looseObject({ logprobs: logprobs.nullish() })),
})

export const optimSchema = z.looseObject({ metrics: lax(z.record(z.string(), z.unknown())) })

export const pathSchema = z.looseObject({ path: name })

export const samplerSchema = z.looseObject({
  path: lax(name),
  sampling_session_id: lax(name),
})

export const samplingSessionSchema = z.looseObject({ sampling_session_id: name })

export const sampleSchema = z.looseObject({
  sequences: z.array(
    z.looseObject({
      tokens: z.array(z.number().int().nonnegative()).min(1),
      logprobs: z.array(logprob),
      stop_reason: z.enum(['stop', 'length']),
    }),
  ),
  prompt_logprobs: z.array(logprob.nullable()).nullish(),
})

/** Not there yet: ask again. */
export const tryAgainSchema = z.looseObject({ type: z.literal('try_again') })

/** A result that says that the work failed. */
export const failedSchema = z.looseObject({
  error: z.union([z.string(), z.looseObject({})]),
  category: lax(z.string()),
})

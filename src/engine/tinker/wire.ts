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

/** An answer that only says that it has come. */
export const anySchema = z.looseObject({})

export const capabilitiesSchema = z.looseObject({
  supported_models: z.array(
    z.looseObject({ model_name: z.string().nullish(), max_context_length: z.number().int().nullish() }),
  ),
})

export const sessionSchema = z.looseObject({
  session_id: z.string(),
  info_message: z.string().nullish(),
  warning_message: z.string().nullish(),
  error_message: z.string().nullish(),
})

/** What most calls answer: the number under which the result can be had. */
export const promiseSchema = z.looseObject({ request_id: z.string() })

export const createModelSchema = promiseSchema.extend({ model_id: z.string().optional() })

/** The result of create_model. SkyRL says the adapter's alpha; the SDK's type has only the model's id. */
export const createdSchema = z.looseObject({
  model_id: z.string(),
  lora_config: z.looseObject({ alpha: z.number().positive().nullish() }).nullish(),
})

const floats = z.looseObject({ data: z.array(z.number()) })

export const lossSchema = z.looseObject({
  loss_fn_outputs: z.array(z.looseObject({ logprobs: floats.optional() })),
})

export const optimSchema = z.looseObject({ metrics: z.record(z.string(), z.number().nullable()).nullish() })

export const pathSchema = z.looseObject({ path: z.string() })

export const samplerSchema = z.looseObject({
  path: z.string().nullish(),
  sampling_session_id: z.string().nullish(),
})

export const samplingSessionSchema = z.looseObject({ sampling_session_id: z.string() })

export const sampleSchema = z.looseObject({
  sequences: z.array(
    z.looseObject({
      tokens: z.array(z.number().int().nonnegative()),
      logprobs: z.array(z.number()),
      stop_reason: z.enum(['stop', 'length']),
    }),
  ),
  prompt_logprobs: z.array(z.number().nullable()).nullish(),
})

/** Not there yet: ask again. */
export const tryAgainSchema = z.looseObject({ type: z.literal('try_again') })

/** A result that says that the work failed. */
export const failedSchema = z.looseObject({ error: z.string(), category: z.string().nullish() })

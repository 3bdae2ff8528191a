/**
 * An ONNX model's bytes from plain objects: protobuf, without the code that protobufjs would make up while it runs, which
 * a page's content policy forbids.
 */
import protobuf from 'protobufjs/minimal.js'

type Scalar = 'int32' | 'int64' | 'float' | 'string' | 'bytes'
interface Field {
  id: number
  type: Scalar | keyof typeof messages
  repeated?: true
}

/** The part of onnx.proto that is written here, ascending by the field numbers, which are the standard's. */
const messages = {
  Model: {
    irVersion: { id: 1, type: 'int64' },
    producerName: { id: 2, type: 'string' },
    graph: { id: 7, type: 'Graph' },
    opsetImport: { id: 8, type: 'OperatorSet', repeated: true },
  },
  OperatorSet: { domain: { id: 1, type: 'string' }, version: { id: 2, type: 'int64' } },
  Graph: {
    node: { id: 1, type: 'Node', repeated: true },
    name: { id: 2, type: 'string' },
    initializer: { id: 5, type: 'TensorData', repeated: true },
    input: { id: 11, type: 'ValueInfo', repeated: true },
    output: { id: 12, type: 'ValueInfo', repeated: true },
    valueInfo: { id: 13, type: 'ValueInfo', repeated: true },
  },
  Node: {
    input: { id: 1, type: 'string', repeated: true },
    output: { id: 2, type: 'string', repeated: true },
    name: { id: 3, type: 'string' },
    opType: { id: 4, type: 'string' },
    attribute: { id: 5, type: 'Attribute', repeated: true },
    domain: { id: 7, type: 'string' },
  },
  Attribute: {
    name: { id: 1, type: 'string' },
    f: { id: 2, type: 'float' },
    i: { id: 3, type: 'int64' },
    s: { id: 4, type: 'bytes' },
    t: { id: 5, type: 'TensorData' },
    ints: { id: 8, type: 'int64', repeated: true },
    type: { id: 20, type: 'int32' },
  },
  TensorData: {
    dims: { id: 1, type: 'int64', repeated: true },
    dataType: { id: 2, type: 'int32' },
    name: { id: 8, type: 'string' },
    rawData: { id: 9, type: 'bytes' },
    externalData: { id: 13, type: 'Entry', repeated: true },
    dataLocation: { id: 14, type: 'int32' },
  },
  Entry: { key: { id: 1, type: 'string' }, value: { id: 2, type: 'string' } },
  ValueInfo: { name: { id: 1, type: 'string' }, type: { id: 2, type: 'ValueType' } },
  ValueType: { tensorType: { id: 1, type: 'TensorType' } },
  TensorType: { elemType: { id: 1, type: 'int32' }, shape: { id: 2, type: 'TensorShape' } },
  TensorShape: { dim: { id: 1, type: 'Dimension', repeated: true } },
  Dimension: { dimValue: { id: 1, type: 'int64' }, dimParam: { id: 2, type: 'string' } },
} as const satisfies Record<string, Record<string, { id: number; type: string; repeated?: true }>>

/** How a value's kind is told before it (protobuf's wire types). */
const VARINT = 0
const DELIMITED = 2
const FOUR_BYTES = 5

/** A model's bytes. */
export function onnxBytes(model: object): Uint8Array {
  return written(protobuf.Writer.create(), 'Model', model).finish()
}

/** A message as it was written: absent fields are absent, repeated ones lists. */
export type Read = Record<string, unknown>

/** The same read back. */
export function onnxModel(bytes: Uint8Array): Read {
  const reader = protobuf.Reader.create(bytes)
  return readMessage(reader, 'Model', reader.len)
}

function readMessage(reader: protobuf.Reader, name: keyof typeof messages, end: number): Read {
  const message: Read = {}
  for (const [key, field] of Object.entries<Field>(messages[name])) if (field.repeated) message[key] = []
  const fields = new Map(
    Object.entries<Field>(messages[name]).map(([key, field]) => [field.id, { key, field }]),
  )
  while (reader.pos < end) {
    const tag = reader.uint32()
    const known = fields.get(tag >>> 3)
    if (known === undefined) {
      reader.skipType(tag & 7)
      continue
    }
    const { key, field } = known
    if (!field.repeated) message[key] = readField(reader, field)
    else if (field.type === 'int64' && (tag & 7) === DELIMITED) {
      const stop = reader.uint32() + reader.pos
      while (reader.pos < stop) (message[key] as unknown[]).push(readField(reader, field))
    } else (message[key] as unknown[]).push(readField(reader, field))
  }
  return message
}

function readField(reader: protobuf.Reader, { type }: Field): unknown {
  if (type === 'int32') return reader.int32()
  if (type === 'int64') return Number(reader.int64())
  if (type === 'float') return reader.float()
  if (type === 'string') return reader.string()
  if (type === 'bytes') return reader.bytes()
  return readMessage(reader, type, reader.uint32() + reader.pos)
}

function written(writer: protobuf.Writer, name: keyof typeof messages, message: object): protobuf.Writer {
  for (const [key, field] of Object.entries<Field>(messages[name])) {
    const value = (message as Record<string, unknown>)[key]
    // What stands for nothing is left out, as protobuf's own writers do.
    if (value === undefined || value === 0 || value === '') continue
    if (!field.repeated) writeField(writer, field, value)
    else if (field.type !== 'int64') for (const one of value as unknown[]) writeField(writer, field, one)
    else if ((value as number[]).length > 0) {
      // Numbers stand packed, behind one tag.
      writer.uint32((field.id << 3) | DELIMITED).fork()
      for (const one of value as number[]) writer.int64(one)
      writer.ldelim()
    }
  }
  return writer
}

function writeField(writer: protobuf.Writer, { id, type }: Field, value: unknown): void {
  const tag = (wire: number) => writer.uint32((id << 3) | wire)
  if (type === 'int32') tag(VARINT).int32(value as number)
  else if (type === 'int64') tag(VARINT).int64(value as number)
  else if (type === 'float') tag(FOUR_BYTES).float(value as number)
  else if (type === 'string') tag(DELIMITED).string(value as string)
  else if (type === 'bytes') tag(DELIMITED).bytes(value as Uint8Array)
  else written(tag(DELIMITED).fork(), type, value as object).ldelim()
}

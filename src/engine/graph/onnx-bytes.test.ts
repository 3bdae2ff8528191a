/** What is written is read back by protobufjs from the same part of onnx.proto. */
import protobuf from 'protobufjs'
import { expect, it } from 'vitest'
import { onnxBytes } from './onnx-bytes.ts'

const { root } = protobuf.parse(`
  syntax = "proto2";
  message Model { optional int64 ir_version = 1; optional string producer_name = 2; optional Graph graph = 7; repeated OperatorSet opset_import = 8; }
  message OperatorSet { optional string domain = 1; optional int64 version = 2; }
  message Graph { repeated Node node = 1; optional string name = 2; repeated TensorData initializer = 5; repeated ValueInfo input = 11; }
  message Node { repeated string input = 1; repeated string output = 2; optional string op_type = 4; repeated Attribute attribute = 5; }
  message Attribute { optional string name = 1; optional float f = 2; optional int64 i = 3; optional bytes s = 4; optional TensorData t = 5; repeated int64 ints = 8; optional int32 type = 20; }
  message TensorData { repeated int64 dims = 1; optional int32 data_type = 2; optional bytes raw_data = 9; repeated Entry external_data = 13; optional int32 data_location = 14; }
  message Entry { optional string key = 1; optional string value = 2; }
  message ValueInfo { optional string name = 1; optional ValueType type = 2; }
  message ValueType { optional TensorType tensor_type = 1; }
  message TensorType { optional int32 elem_type = 1; optional TensorShape shape = 2; }
  message TensorShape { repeated Dimension dim = 1; }
  message Dimension { optional int64 dim_value = 1; optional string dim_param = 2; }
`)

it('is a model that a reader of protobuf finds whole', () => {
  const model = {
    irVersion: 10,
    producerName: 'message-board',
    opsetImport: [{ version: 21 }, { domain: 'com.microsoft', version: 1 }],
    graph: {
      name: 'π and 💥',
      node: [
        {
          opType: 'Slice',
          // An input that is left out keeps its place.
          input: ['x', '', 'axes'],
          output: ['y'],
          attribute: [
            { name: 'alpha', f: -0.5, type: 1 },
            { name: 'axis', i: -1, type: 2 },
            { name: 'mode', s: Uint8Array.of(0, 255), type: 3 },
            { name: 'perm', ints: [0, 2, -1, 2 ** 40], type: 7 },
            { name: 'value', t: { dims: [2], dataType: 1, rawData: new Uint8Array(8).fill(3) }, type: 4 },
          ],
        },
      ],
      initializer: [
        { dims: [3, 300], dataType: 1, externalData: [{ key: 'location', value: 'w' }], dataLocation: 1 },
      ],
      input: [
        {
          name: 'x',
          type: { tensorType: { elemType: 1, shape: { dim: [{ dimValue: 64 }, { dimParam: 'batch' }] } } },
        },
      ],
    },
  }
  const Model = root.lookupType('Model')
  const read = Model.toObject(Model.decode(onnxBytes(model)), { longs: Number, arrays: false })
  expect(JSON.parse(JSON.stringify(read))).toEqual(
    JSON.parse(
      JSON.stringify(model, (_, value) =>
        value instanceof Uint8Array ? { type: 'Buffer', data: [...value] } : value,
      ),
    ),
  )
})

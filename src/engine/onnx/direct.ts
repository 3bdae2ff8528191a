/**
 * Sessions on the CPU by ONNX Runtime's C API. The Node binding asks every tensor's object for its parts in every run, some 4
 * microseconds each, and gives each output new memory: a sixth of a small model's step of 48 rows, half of a step of one.
 * Here a tensor takes 0.3 microseconds, and outputs are written into arrays that are given. The numbers are the same.
 */
import { Tensor } from 'onnxruntime-common'
import { utf8 } from '../../bytes.ts'
import { ELEMENT_TYPE } from '../graph/tensor.ts'
import { api, type NativeApi, openSession } from './native.ts'
import type { CreateSession, Value } from './runnable.ts'

/** What makes such sessions; null where koffi or the library does not load. */
export function directSessions(): CreateSession | null {
  let native: NativeApi
  try {
    native = api()
  } catch {
    return null
  }
  return async (bytes, options) => {
    const { session } = await openSession(native, bytes, { provider: 'cpu', ...options })
    const inputs = native.inputNames(session)
    const outputs = native.outputNames(session)
    const [inputNames, outputNames] = [inputs, outputs].map((names) => texts(native, names))
    const given = values(native, inputs.length)
    const found = values(native, outputs.length)
    return {
      inputs,
      async run(tensors, into = {}) {
        try {
          tensors.forEach(given.wrap)
          outputs.forEach((name, i) => {
            if (name in into) found.wrap(into[name], i)
          })
          native.check(
            native.often.run(
              session,
              null,
              inputNames.pointers,
              given.pointers,
              inputs.length,
              outputNames.pointers,
              outputs.length,
              found.pointers,
            ),
          )
          return Object.fromEntries(outputs.map((name, i) => [name, into[name] ?? found.copy(i)]))
        } finally {
          given.release()
          found.release()
        }
      },
      async release() {
        native.releaseSession(session)
      },
    }
  }
}

/** Names as C reads them; they lie where the pointers say as long as `held` is. */
function texts({ addressOfArray }: NativeApi, names: readonly string[]) {
  const held = names.map((name) => utf8(`${name}\0`))
  return { held, pointers: BigUint64Array.from(held, addressOfArray) }
}

/** ONNX Runtime's tensors of one run, by their places: each is made for the run and released after it. */
function values({ often, check, floatsAt, hostMemory }: NativeApi, count: number) {
  const pointers = new BigUint64Array(count)
  const places = Array.from({ length: count }, (_, i) => pointers.subarray(i, i + 1))
  const dims = new BigInt64Array(MOST_DIMS)
  const found = new BigUint64Array(1)
  const word = new Int32Array(2)
  return {
    pointers,
    /**
     * A tensor over an array of JavaScript's, which is read or written where it lies. koffi asks for the array's buffer, and by
     * that a small one leaves V8's heap, where it could be moved.
     */
    wrap(value: Value, i: number): void {
      const { dims: shape, data } = value
      for (let axis = 0; axis < shape.length; axis++) dims[axis] = BigInt(shape[axis])
      const bytes = (data as Float32Array).byteLength
      const type = ELEMENT_TYPE[value.type as keyof typeof ELEMENT_TYPE]
      check(often.wrapTensor(hostMemory, data, bytes, dims, shape.length, type, places[i]))
    },
    /** What a run has put into a place that was empty. */
    copy(i: number): Value {
      check(often.typeAndShape(pointers[i], found))
      const info = found[0]
      try {
        check(often.elementType(info, word))
        if (word[0] !== ELEMENT_TYPE.float32)
          throw new Error('an output of a graph is not in single precision')
        check(often.rank(info, found))
        const rank = Number(found[0])
        check(often.dims(info, dims, rank))
        const shape = Array.from(dims.subarray(0, rank), Number)
        check(often.data(pointers[i], found))
        const size = shape.reduce((product, length) => product * length, 1)
        return new Tensor('float32', floatsAt(found[0], size), shape)
      } finally {
        often.releaseTypeAndShape(info)
      }
    },
    release(): void {
      for (const pointer of pointers) if (pointer !== 0n) often.releaseValue(pointer)
      pointers.fill(0n)
    },
  }
}

/** More than any tensor of ours has. */
const MOST_DIMS = 8

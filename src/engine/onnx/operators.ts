/**
 * Operators of our own inside ONNX Runtime's graphs, of the domain `message-board`: what ONNX Runtime asks of one is
 * answered by functions written here, which it calls through koffi. One set of them serves all operators of a thread, told
 * apart by the address that each call brings. `native.ts` opens this with the C API it has loaded.
 *
 * A thread that is terminated answers nothing any more while it is still inside of ONNX Runtime, and koffi then returns
 * whatever lies on the stack. So what ends a run is not returned as a status, which would be read and freed, but told by the
 * run's options; a kernel that is made up does no harm either. Sessions with operators are made in their own thread: another
 * one would go on calling when this one is gone. Still, a thread should be let come out before it is ended (`pool.ts`): where
 * koffi is about to hand over an error, it ends the process. A call of an operator with three inputs takes 2.5 us, and making a session
 * of 500 nodes 50 ms.
 */
import { type DType, ELEMENT_TYPE } from '../graph/tensor.ts'

/** What tensors hold. */
type NativeType = Exclude<DType, 'bool'>
export type Attributes = Readonly<Record<string, number>>

/** A tensor in its provider's memory. */
export interface OperatorTensor {
  readonly dims: readonly number[]
  /** 0n where there are no elements. */
  readonly pointer: bigint
}

export interface OperatorContext {
  readonly inputs: readonly OperatorTensor[]
  /** Made in the sizes that `shapes` gave; not initialised. */
  readonly outputs: readonly OperatorTensor[]
  readonly attributes: Attributes
  /** CUDA's stream that the work has to be put on; 0n on the CPU. */
  readonly stream: bigint
}

export interface Operator {
  readonly name: string
  readonly inputs: readonly (NativeType | 'any')[]
  readonly outputs: readonly NativeType[]
  readonly provider: 'CPUExecutionProvider' | 'CUDAExecutionProvider'
  /** All of them have to be given, in each node. */
  readonly attributes?: Readonly<Record<string, 'int' | 'float'>>
  /**
   * [input, output]: may share memory. They do where nothing else needs the input and the graph names both sizes
   * (`namesSizes`).
   */
  readonly inPlace?: readonly (readonly [number, number])[]
  /** The outputs' sizes. */
  shapes(inputs: readonly (readonly number[])[], attributes: Attributes): readonly (readonly number[])[]
  /** What it throws ends the run, with that message. Its context's memory is good until it returns. */
  compute(context: OperatorContext): void
}

/** What sessions with operators need. */
export interface Operators {
  /** Adds the operators to a session's options. What is returned lets go of them, after the session. */
  add(settings: unknown, operators: readonly Operator[]): () => void
  /** Makes a session. Where an operator refuses a node, that is what fails. */
  making(make: () => unknown, release: (session: unknown) => void): unknown
  /** Runs a session with these options. Where an operator throws, that is what fails. */
  running(run: () => void, options: unknown): void
}

/** The C API as it was loaded: functions by their place in `OrtApi`. */
export interface Loaded {
  koffi: typeof import('koffi')
  /** The version of the C API. */
  version: number
  address(place: number): unknown
  check(status: unknown): void
}

/** `OrtCustomOp`: after its version, these functions. Those that are left out below are null. */
const LAYOUT = [
  'CreateKernel',
  'GetName',
  'GetExecutionProviderType',
  'GetInputType',
  'GetInputTypeCount',
  'GetOutputType',
  'GetOutputTypeCount',
  'KernelCompute',
  'KernelDestroy',
  'GetInputCharacteristic',
  'GetOutputCharacteristic',
  'GetInputMemoryType',
  'GetVariadicInputMinArity',
  'GetVariadicInputHomogeneity',
  'GetVariadicOutputMinArity',
  'GetVariadicOutputHomogeneity',
  'CreateKernelV2',
  'KernelComputeV2',
  'InferOutputShapeFn',
  'GetStartVersion',
  'GetEndVersion',
  'GetMayInplace',
  'ReleaseMayInplace',
  'GetAliasMap',
  'ReleaseAliasMap',
] as const
type Asked = (typeof LAYOUT)[number]

/** Scratch memory, counted in eights of bytes: the C API writes at OUT, and reads an output's sizes from DIMS on. */
const OUT = 0
const DIMS = 8
const SCRATCH = 64

/** A node of a session. */
interface Kernel {
  operator: Operator
  attributes: Attributes
}

export function openOperators({ koffi, version, address, check }: Loaded): Operators {
  // Addresses and sizes are passed as numbers, which koffi converts faster than pointers: they have less than 53 bits.
  const N = 'int64_t'
  const at = (place: number, ...parameters: string[]): ((...given: (number | bigint | string)[]) => number) =>
    koffi.decode(address(place), koffi.proto(N, parameters))
  const stop = at(46, 'void *')
  const goOn = at(47, 'void *')
  const createDomain = at(26, 'const char *', N)
  const addToDomain = at(27, N, N)
  const addDomain = at(28, 'void *', N)
  const releaseDomain = at(101, N)
  const floatAttribute = at(85, N, 'const char *', N)
  const intAttribute = at(86, N, 'const char *', N)
  const getInput = at(90, N, N, N)
  const getOutput = at(91, N, N, N, N, N)
  const getData = at(51, N, N)
  const getStream = at(193, N, N)
  const getShape = at(414, N, N, N, N)
  const sizeAt = koffi.decode.int64

  const allocated = (type: string, count: number): number => Number(koffi.alloc(type, count))
  const scratch = allocated(N, SCRATCH)
  const memory = koffi.view(BigInt(scratch), 8 * SCRATCH)
  const ints = new BigInt64Array(memory)
  const floats = new Float32Array(memory)
  const out = (place: number) => scratch + 8 * (OUT + place)
  const text = (value: string): number => {
    const bytes = new TextEncoder().encode(`${value}\0`)
    const found = allocated('uint8_t', bytes.length)
    koffi.encode(BigInt(found), koffi.array('uint8_t', bytes.length), bytes)
    return found
  }
  /** Fails where ONNX Runtime does. */
  const done = (status: number) => {
    if (status !== 0) check(BigInt(status))
  }

  /** What an operator threw, and the options of the run that this stops. */
  let failure: Error | undefined
  let runOptions: unknown = null
  const fail = (name: string, error: unknown) => {
    failure = new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
    if (runOptions !== null) done(stop(runOptions as bigint))
  }

  const operators = new Map<number, Operator>()
  const kernels = new Map<number, Kernel>()
  let kernelCount = 0
  const operatorAt = (op: number) => operators.get(op) as Operator
  const names = new Map<string, number>()
  const providers = {
    CPUExecutionProvider: text('CPUExecutionProvider'),
    CUDAExecutionProvider: text('CUDAExecutionProvider'),
  }

  const dimsOf = (value: number): readonly number[] => {
    done(getShape(value, out(1), out(2), out(3)))
    const count = Number(ints[OUT + 3])
    const first = ints[OUT + 2]
    const dims: number[] = []
    for (let i = 0; i < count; i++) dims.push(Number(sizeAt(first + BigInt(8 * i))))
    return dims
  }
  const dataOf = (value: number): bigint => {
    done(getData(value, out(1)))
    return ints[OUT + 1]
  }
  const inputOf = (context: number, index: number): OperatorTensor => {
    done(getInput(context, index, out(0)))
    const value = Number(ints[OUT])
    return { pointer: dataOf(value), dims: dimsOf(value) }
  }
  const outputOf = (context: number, index: number, dims: readonly number[]): OperatorTensor => {
    for (let i = 0; i < dims.length; i++) ints[DIMS + i] = BigInt(dims[i])
    done(getOutput(context, index, scratch + 8 * DIMS, dims.length, out(0)))
    return { dims, pointer: dataOf(Number(ints[OUT])) }
  }
  const streamOf = (context: number): bigint => {
    done(getStream(context, out(0)))
    return ints[OUT]
  }

  const compute = (id: number, context: number): void => {
    // The run is about to stop.
    if (failure !== undefined) return
    const { operator, attributes } = kernels.get(id) as Kernel
    const { name, provider } = operator
    try {
      const inputs = operator.inputs.map((_, i) => inputOf(context, i))
      const sizes = operator.shapes(
        inputs.map(({ dims }) => dims),
        attributes,
      )
      if (sizes.length !== operator.outputs.length)
        throw new Error(`sizes of ${sizes.length} outputs, where it has ${operator.outputs.length}`)
      const outputs = sizes.map((dims, i) => outputOf(context, i, dims))
      const stream = provider === 'CPUExecutionProvider' ? 0n : streamOf(context)
      operator.compute({ inputs, outputs, attributes, stream })
    } catch (error) {
      fail(name, error)
    }
  }
  const create = (op: number, _: number, info: number): number => {
    const operator = operatorAt(op)
    try {
      const attributes = Object.entries(operator.attributes ?? {}).map(([name, kind]) => {
        done((kind === 'int' ? intAttribute : floatAttribute)(info, name, out(0)))
        return [name, kind === 'int' ? Number(ints[OUT]) : floats[2 * OUT]]
      })
      const id = ++kernelCount
      kernels.set(id, { operator, attributes: Object.fromEntries(attributes) })
      return id
    } catch (error) {
      fail(operator.name, error)
      return 0
    }
  }
  const registered = (result: string, parameters: string[], answer: (...given: number[]) => unknown) =>
    koffi.register(answer, koffi.pointer(koffi.proto(result, parameters)))
  const typeOf = (type: NativeType | 'any') => (type === 'any' ? 0 : ELEMENT_TYPE[type])
  const none = registered('int', [N, 'size_t'], () => 0)
  const answers: Partial<Record<Asked, bigint>> = {
    GetName: registered(N, [N], (op) => names.get(operatorAt(op).name) as number),
    GetExecutionProviderType: registered(N, [N], (op) => providers[operatorAt(op).provider]),
    GetInputType: registered('int', [N, 'size_t'], (op, i) => typeOf(operatorAt(op).inputs[i])),
    GetInputTypeCount: registered('size_t', [N], (op) => operatorAt(op).inputs.length),
    GetOutputType: registered('int', [N, 'size_t'], (op, i) => typeOf(operatorAt(op).outputs[i])),
    GetOutputTypeCount: registered('size_t', [N], (op) => operatorAt(op).outputs.length),
    KernelDestroy: registered('void', [N], (id) => {
      kernels.delete(id)
    }),
    // All are required, and in the provider's own memory.
    GetInputCharacteristic: none,
    GetOutputCharacteristic: none,
    GetInputMemoryType: none,
    CreateKernel: registered(N, [N, N, N], create),
    KernelCompute: registered('void', [N, N], compute),
  }

  /** These questions bring no address: each answer has a function of its own, kept as long as the thread lives. */
  const pairings = new Map<string, bigint>()
  const releasePairing = registered('void', [N, N], () => {})
  const pairing = (pairs: readonly (readonly [number, number])[]): bigint => {
    const known = pairings.get(String(pairs))
    if (known !== undefined) return known
    const [from, to] = [0, 1].map((side) => {
      const list = allocated('int', pairs.length)
      pairs.forEach((pair, i) => {
        koffi.encode(BigInt(list), 4 * i, 'int', pair[side])
      })
      return list
    })
    const answer = registered('size_t', [N, N], (inputs, outputs) => {
      koffi.encode(BigInt(inputs), N, from)
      koffi.encode(BigInt(outputs), N, to)
      return pairs.length
    })
    pairings.set(String(pairs), answer)
    return answer
  }

  const laidOut = (operator: Operator): number => {
    if (!names.has(operator.name)) names.set(operator.name, text(operator.name))
    const found = allocated(N, 1 + LAYOUT.length)
    const functions = { ...answers }
    if (operator.inPlace?.length) {
      functions.GetMayInplace = pairing(operator.inPlace)
      functions.ReleaseMayInplace = releasePairing
    }
    koffi.encode(BigInt(found), 'uint32_t', version)
    LAYOUT.forEach((name, i) => {
      koffi.encode(BigInt(found), 8 * (i + 1), N, functions[name] ?? 0n)
    })
    operators.set(found, operator)
    return found
  }

  return {
    add(settings, list) {
      done(createDomain('message-board', out(0)))
      const domain = Number(ints[OUT])
      const structs = list.map(laidOut)
      const release = () => {
        releaseDomain(domain)
        for (const struct of structs) {
          operators.delete(struct)
          koffi.free(BigInt(struct))
        }
      }
      try {
        for (const struct of structs) done(addToDomain(domain, struct))
        done(addDomain(settings as bigint, domain))
      } catch (error) {
        release()
        throw error
      }
      return release
    },
    making(make, release) {
      failure = undefined
      const session = make()
      if (failure === undefined) return session
      release(session)
      throw failure
    },
    running(run, options) {
      failure = undefined
      runOptions = options
      try {
        run()
      } catch (error) {
        // Of a run that was stopped, ONNX Runtime says that.
        if (failure === undefined) throw error
      } finally {
        runOptions = null
      }
      if (failure === undefined) return
      done(goOn(options as bigint))
      throw failure
    },
  }
}

/** A compile-time check: what a browser's sibling exports has the types that the rest of the code is written for. */
import type * as device from '../../src/engine/onnx/device.ts'
import type * as deviceWeb from '../../src/engine/onnx/device.web.ts'
import type * as lanes from '../../src/engine/onnx/lanes.ts'
import type * as lanesWeb from '../../src/engine/onnx/lanes.web.ts'
import type * as native from '../../src/engine/onnx/native.ts'
import type * as nativeWeb from '../../src/engine/onnx/native.web.ts'
import type * as open from '../../src/engine/onnx/open.ts'
import type * as openWeb from '../../src/engine/onnx/open.web.ts'
import type * as runtime from '../../src/engine/onnx/runtime.ts'
import type * as runtimeWeb from '../../src/engine/onnx/runtime.web.ts'
import type * as threads from '../../src/engine/onnx/threads.ts'
import type * as threadsWeb from '../../src/engine/onnx/threads.web.ts'
import type * as tinker from '../../src/engine/tinker/index.ts'
import type * as tinkerWeb from '../../src/engine/tinker/index.web.ts'
import type * as locate from '../../src/hub/locate.ts'
import type * as locateWeb from '../../src/hub/locate.web.ts'
import type * as files from '../../src/platform/files.ts'
import type * as filesWeb from '../../src/platform/files.web.ts'
import type * as hash from '../../src/platform/hash.ts'
import type * as hashWeb from '../../src/platform/hash.web.ts'
import type * as machine from '../../src/platform/machine.ts'
import type * as machineWeb from '../../src/platform/machine.web.ts'
import type * as path from '../../src/platform/path.ts'
import type * as pathWeb from '../../src/platform/path.web.ts'
import type * as lock from '../../src/record/lock.ts'
import type * as lockWeb from '../../src/record/lock.web.ts'
import type * as built from '../../src/report/built.ts'
import type * as builtWeb from '../../src/report/built.web.ts'

/** The other of the two where one of the sibling's exports has another type, and then it is no `true`. */
type Stands<Web, Own> = Web extends { [Name in keyof Web & keyof Own]: Own[Name] } ? true : { not: Own }

export const all: [
  Stands<typeof deviceWeb, typeof device>,
  Stands<typeof lanesWeb, typeof lanes>,
  Stands<typeof nativeWeb, typeof native>,
  Stands<typeof openWeb, typeof open>,
  Stands<typeof runtimeWeb, typeof runtime>,
  Stands<typeof threadsWeb, typeof threads>,
  Stands<typeof tinkerWeb, typeof tinker>,
  Stands<typeof locateWeb, typeof locate>,
  Stands<typeof filesWeb, typeof files>,
  Stands<typeof hashWeb, typeof hash>,
  Stands<typeof machineWeb, typeof machine>,
  Stands<typeof pathWeb, typeof path>,
  Stands<typeof lockWeb, typeof lock>,
  Stands<typeof builtWeb, typeof built>,
] = [true, true, true, true, true, true, true, true, true, true, true, true, true, true]

import { describe, expect, it } from 'vitest'
import { gpuHere } from './testing.ts'

const gpu = await gpuHere()

describe.skipIf(gpu === null)('a GPU', () => {
  const { buffer, compile, done, prepare, read, write } = gpu!
  const doubling = `
struct Values { count: i32, factor: f32 }
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> target_: array<f32>;
@group(0) @binding(2) var<uniform> values: Values;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (i32(id.x) < values.count) { target_[id.x] += values.factor * source[id.x]; }
}`

  it('runs steps in their order, again and again', async () => {
    const [a, b, c] = [buffer(400), buffer(400), buffer(12)]
    write(
      a,
      Float32Array.from({ length: 100 }, (_, i) => i),
    )
    await compile([doubling, doubling])
    const prepared = prepare([
      { code: doubling, buffers: [a, b], values: [{ int: 99 }, { float: 2 }], grid: [2, 1, 1] },
      { source: b, sourceOffset: 392, target: c, targetOffset: 4, bytes: 8 },
      { code: doubling, buffers: [b, a], values: [{ int: 100 }, { float: -0.5 }], grid: [2, 1, 1] },
    ])
    prepared.run()
    prepared.run(2)
    const [found, copied] = [new Float32Array(100), new Float32Array(3)]
    await read(b, found)
    await read(c, copied)
    await done()
    prepared.dispose()
    // a and b after each run: b += 2 a, then a -= b / 2.
    let [x, y] = [50, 0]
    for (let run = 0; run < 3; run++) {
      y += 2 * x
      x -= 0.5 * y
    }
    expect(found[50]).toBe(y)
    expect(found[99]).toBe(0)
    expect([...copied]).toEqual([0, found[98], 0])
  })

  it('gives a kernel more values than others have', async () => {
    const many = `
struct Values { a: i32, b: i32, c: f32, d: f32, e: f32 }
@group(0) @binding(0) var<storage, read_write> sum: array<f32>;
@group(0) @binding(1) var<uniform> values: Values;
@compute @workgroup_size(1)
fn main() { sum[0] += f32(values.a * values.b) + values.c + values.d + values.e; }`
    const sum = buffer(4)
    await compile([many])
    const values = [{ int: 2 }, { int: 3 }, { float: 0.5 }, { float: 0.25 }, { float: 0.125 }]
    prepare([
      { code: many, buffers: [sum], values, grid: [1, 1, 1] },
      { code: many, buffers: [sum], values, grid: [1, 1, 1] },
    ]).run()
    const found = new Float32Array(1)
    await read(sum, found)
    expect(found[0]).toBe(13.75)
  })

  it('is given what threads share, and an odd number of halves', async () => {
    const shared = new Uint16Array(new SharedArrayBuffer(6))
    shared.set([1, 2, 3])
    const a = buffer(6)
    write(a, shared)
    const found = new Uint16Array(3)
    await read(a, found)
    expect([...found]).toEqual([1, 2, 3])
  })

  it('says what a kernel does not compile for', async () => {
    await expect(compile(['fn main() { let from = 1; }'])).rejects.toThrow(/does not compile: .*from/)
    await done()
  })

  it('says what it refuses', async () => {
    await compile([doubling])
    const small = buffer(16)
    prepare([{ source: small, sourceOffset: 0, target: small, targetOffset: 64, bytes: 64 }]).run()
    await expect(done()).rejects.toThrow(/refuses/)
    await done()
  })
})

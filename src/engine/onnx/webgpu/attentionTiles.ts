/**
 * How kernels of attention compute products of tiles, as pieces of WGSL: in plain WGSL, or by subgroups' products of
 * matrices. A workgroup owns OWN rows of some tensors, and goes through others' rows, the stream, STREAM at a time:
 *
 * - Dots are products of own rows with the stream's over headDim. Each thread is left with those of two rows, `down` and
 *   `down + OWN / 2`, and four of the stream from `4 * across` on, as two vec4f.
 * - A mix adds rows of the stream to sums [OWN, headDim], in shares [OWN, STREAM] that threads have as dots left them.
 *
 * The pieces hold barriers, so all threads run them. The kernel says where they are: `first` and `at` are where the own rows
 * and the stream's start, `<tensor>_base` the word where a tensor's row 0 is, `<tensor>_step` how many words on the next is,
 * and `last` is the last row that there is, which stands for those behind it. `values.head_dim` is headDim: loops whose length
 * is not in the text stay loops, where drivers take long for what they unroll.
 */

export const THREADS = 256
export const OWN = 64
export const STREAM = 32
/** Threads that have scores of the same row, and how many rows are between the two that each has. */
const ACROSS = STREAM / 4
const HALF = OWN / 2

export interface Tensors {
  own: readonly string[]
  stream: readonly string[]
}

export interface Tiles {
  /** How rows of halves are bound, and how many of them a word holds. */
  word: 'vec2u' | 'vec4u'
  wordHalves: number
  workgroupBytes: number
  enable: string
  /** What stands before the entry. */
  shared: string
  /** What the entry is given, besides the thread. */
  builtins: string
  /** Before the stream, which begins at `at`. */
  begin: string
  /** Before the stream is gone through again. */
  again: string
  /** Declares sums of zero. */
  sums(name: string): string
  /** Begins a round. If there is `more`, the next is at `next_at`, from `next_<tensor>_base`. */
  advance: string
  /** Declares `<result>0` and `<result>1` for each own tensor and the stream's of the same place. */
  dots(results: readonly string[]): string
  /** Adds to sums rows of the stream's tensor of that place, in shares `<shares>0` and `<shares>1`. */
  mix(sums: string, place: number, shares: string): string
  /** Hands the sums, so multiplied, on: own row, column (a multiple of 4) and a vec4f. */
  store(sums: string, factors: string, put: (row: string, column: string, value: string) => string): string
}

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join('\n')

/** Of rows that several threads have part of. `put_pair` and `pair_of` are how threads show others two numbers. */
const EXCHANGE = `
fn most_of_row(pair: vec2f, thread: u32) -> vec2f {
  workgroupBarrier();
  put_pair(thread, pair);
  workgroupBarrier();
  var most = pair;
  let end = (thread / ${ACROSS}u + 1u) * ${ACROSS}u;
  for (var i = end - ${ACROSS}u; i < end; i++) { most = max(most, pair_of(i)); }
  return most;
}
fn sum_of_row(pair: vec2f, thread: u32) -> vec2f {
  workgroupBarrier();
  put_pair(thread, pair);
  workgroupBarrier();
  var sum = vec2f();
  let end = (thread / ${ACROSS}u + 1u) * ${ACROSS}u;
  for (var i = end - ${ACROSS}u; i < end; i++) { sum += pair_of(i); }
  return sum;
}`

/** Elements along headDim that dots take into workgroup memory at a time. */
const CHUNK = 16
/** From one of their rows to the next, in vec4f: odd, so that rows begin in other banks. */
const CHUNK_STEP = CHUNK / 4 + 1
const STAGED = CHUNK_STEP * (OWN + STREAM)

/** Without extensions, for headDim a multiple of 16. */
export function plainTiles(headDim: number, { own, stream }: Tensors): Tiles {
  const quads = headDim / 4
  // A thread's sums are of `rows` rows, and of `columns` vec4f of each.
  const threadsAcross = Math.min(16, quads & -quads)
  const threadsDown = THREADS / threadsAcross
  const rows = OWN / threadsDown
  const columns = quads / threadsAcross
  const mixed = 2 ** Math.floor(Math.log2(Math.min(STREAM, STAGED / quads)))
  const each = (line: (row: number, column: number) => string) =>
    lines(rows, (row) => lines(columns, (column) => line(row, column)))
  const rowOf = (row: number) => `(thread / ${threadsAcross}u + ${row * threadsDown}u)`
  const columnOf = (column: number) => `(thread % ${threadsAcross}u + ${column * threadsAcross}u)`
  const factorOf = (row: number) => `pair_of(${rowOf(row)} % ${HALF}u * ${ACROSS}u)[${rowOf(row)} / ${HALF}u]`
  const show = (factors: string) => `
    workgroupBarrier();
    put_pair(thread, ${factors});
    workgroupBarrier();`
  return {
    word: 'vec2u',
    wordHalves: 4,
    workgroupBytes: 16 * (STAGED + (OWN * STREAM) / 4),
    enable: '',
    shared: `
var<workgroup> staged: array<vec4f, ${STAGED}>;
var<workgroup> shares: array<vec4f, ${(OWN * STREAM) / 4}>;
fn numbers(word: vec2u) -> vec4f { return vec4f(unpack2x16float(word.x), unpack2x16float(word.y)); }
fn added(sum: f32, a: vec4f, b: vec4f) -> f32 {
  return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
}
fn put_pair(thread: u32, pair: vec2f) { staged[thread] = vec4f(pair, 0, 0); }
fn pair_of(thread: u32) -> vec2f { return staged[thread].xy; }
${EXCHANGE}`,
    builtins: '',
    begin: '',
    again: '',
    sums: (name) => each((row, column) => `var ${name}_${row}_${column} = vec4f();`),
    advance: '',
    dots: (results) =>
      lines(results.length, (i) => {
        const [mine, theirs, result] = [own[i], stream[i], results[i]]
        return `
  var ${result}0 = vec4f();
  var ${result}1 = vec4f();
  for (var chunk = 0u; chunk < values.head_dim / 4u; chunk += ${CHUNK / 4}u) {
    let row = thread / ${CHUNK / 4}u;
    let quad = thread % ${CHUNK / 4}u;
    workgroupBarrier();
    staged[row * ${CHUNK_STEP}u + quad] =
      numbers(${mine}[${mine}_base + min(first + row, last) * ${mine}_step + chunk + quad]);
    if (row < ${STREAM}u) {
      // Of a thread's four rows the next are those of the threads beside it.
      let place = ${OWN}u + row % 4u * ${ACROSS}u + row / 4u;
      staged[place * ${CHUNK_STEP}u + quad] =
        numbers(${theirs}[${theirs}_base + min(at + row, last) * ${theirs}_step + chunk + quad]);
    }
    workgroupBarrier();
    var b = (${OWN}u + across) * ${CHUNK_STEP}u;
    let end = down * ${CHUNK_STEP}u + ${CHUNK / 4}u;
    for (var a = end - ${CHUNK / 4}u; a < end; a++) {
      let a0 = staged[a];
      let a1 = staged[a + ${HALF * CHUNK_STEP}u];
      ${lines(4, (n) => `let b${n} = staged[b + ${n * ACROSS * CHUNK_STEP}u];`)}
      b++;
      ${lines(2, (m) => lines(4, (n) => `${result}${m}[${n}] = added(${result}${m}[${n}], a${m}, b${n});`))}
    }
  }`
      }),
    mix: (sums, place, given) => `{
    workgroupBarrier();
    shares[down * ${ACROSS}u + across] = ${given}0;
    shares[(down + ${HALF}u) * ${ACROSS}u + across] = ${given}1;
    for (var begun = at; begun < at + ${STREAM}u; begun += ${mixed}u) {
      for (var i = thread; i < ${mixed * quads}u; i += ${THREADS}u) {
        let row = min(begun + i / ${quads}u, last);
        staged[i] = numbers(${stream[place]}[${stream[place]}_base + row * ${stream[place]}_step + i % ${quads}u]);
      }
      workgroupBarrier();
      var first_b = thread % ${threadsAcross}u;
      let end = (begun - at) / 4u + ${mixed / 4}u;
      for (var keys = end - ${mixed / 4}u; keys < end; keys++) {
        ${lines(rows, (row) => `let share${row} = shares[${rowOf(row)} * ${ACROSS}u + keys];`)}
        ${lines(4, (n) =>
          lines(
            columns,
            (column) => `{
          let b = staged[first_b + ${n * quads + column * threadsAcross}u];
          ${lines(rows, (row) => `${sums}_${row}_${column} = fma(vec4f(share${row}[${n}]), b, ${sums}_${row}_${column});`)}
        }`,
          ),
        )}
        first_b += ${4 * quads}u;
      }
      workgroupBarrier();
    }
  }`,
    store: (sums, factors, put) => `{
    ${show(factors)}
    ${lines(rows, (row) => `let factor${row} = ${factorOf(row)};`)}
    ${each((row, column) => put(rowOf(row), `(4u * ${columnOf(column)})`, `(${sums}_${row}_${column} * factor${row})`))}
  }`,
  }
}

/** Rows and columns of a matrix. */
const SIDE = 16
/** Quads from one row to the next in workgroup memory: rows begin in other banks. */
const SCORE_STEP = STREAM / 4 + 2
const SHARE_STEP = STREAM / 4 + 2
const SCORES = OWN * SCORE_STEP
const LEFT = 'subgroup_matrix_left<f16, 16, 16>'
const RIGHT = 'subgroup_matrix_right<f16, 16, 16>'
const RESULT = 'subgroup_matrix_result<f32, 16, 16>'

/**
 * With products of matrices by eight subgroups, for headDim a multiple of 32. Each has 16 own rows, and half of the columns
 * of scores, and of sums. Its own rows stay in registers; the stream's next rows are on their way while a round is computed.
 */
export function matrixTiles(headDim: number, { own, stream }: Tensors): Tiles {
  const words = headDim / 8
  // An odd number of words: rows begin in other banks.
  const step = words + 1
  const inner = headDim / SIDE
  const columns = headDim / 2 / SIDE
  const streamWords = STREAM * words
  const copies = Math.ceil(streamWords / THREADS)
  const eachCopy = (line: (tensor: number, copy: number) => string) =>
    lines(stream.length, (tensor) =>
      lines(copies, (copy) => {
        const guard =
          (copy + 1) * THREADS > streamWords ? `if (thread + ${copy * THREADS}u < ${streamWords}u)` : ''
        return `${guard} {
      let i = thread + ${copy * THREADS}u;
      ${line(tensor, copy)}
    }`
      }),
    )
  const fetch = (start: string, base: (tensor: string) => string) =>
    eachCopy((tensor, copy) => {
      const name = stream[tensor]
      const row = `min(${start} + i / ${words}u, last)`
      return `fetched_${tensor}_${copy} = ${name}[${base(name)} + ${row} * ${name}_step + i % ${words}u];`
    })
  const again = fetch('at', (name) => `${name}_base`)
  const multiply = (sum: string, left: string, right: string) =>
    `${sum} = subgroupMatrixMultiplyAccumulate(${left}, ${right}, ${sum});`
  const load = (type: string, memory: string, offset: string, transposed: boolean, from: string) =>
    `subgroupMatrixLoad<${type}, ${transposed ? 'col_major' : 'row_major'}>(&${memory}, ${offset}, ${from})`
  // Sums go by way of the scores' memory, so many columns of each half at a time.
  const park = (sum: string) => `
    workgroupBarrier();
    subgroupMatrixStore<row_major>(&scores, corner, ${sum}, ${SCORE_STEP}u);
    workgroupBarrier();`
  return {
    word: 'vec4u',
    wordHalves: 8,
    workgroupBytes: 16 * 2 * STREAM * step + 8 * OWN * SHARE_STEP + 16 * own.length * SCORES,
    enable: `enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;`,
    shared: `
// Rows of both tensors of the stream. Matrices are read from and written to arrays of words, by the word.
var<workgroup> tiles: array<vec4u, ${2 * STREAM * step}>;
var<workgroup> scores: array<vec4f, ${own.length * SCORES}>;
var<workgroup> shares: array<vec2u, ${OWN * SHARE_STEP}>;
fn put_pair(thread: u32, pair: vec2f) { scores[thread] = vec4f(pair, 0, 0); }
fn pair_of(thread: u32) -> vec2f { return scores[thread].xy; }
${EXCHANGE}`,
    builtins: ', @builtin(subgroup_id) subgroup: u32',
    begin: `
  let own_row = subgroup % ${OWN / SIDE}u * ${SIDE}u;
  let side = subgroup / ${OWN / SIDE}u;
  // The subgroup's scores, and the thread's.
  let corner = own_row * ${SCORE_STEP}u + side * ${SIDE / 4}u;
  let quad = down * ${SCORE_STEP}u + across;
  ${own
    .map((name, tensor) => {
      const start = `${name}_base + (first + own_row) * ${name}_step`
      return lines(
        inner,
        (i) => `let own_${tensor}_${i} = ${load(LEFT, name, `${start} + ${2 * i}u`, false, `${name}_step`)};`,
      )
    })
    .join('\n')}
  ${lines(stream.length, (tensor) => lines(copies, (copy) => `var fetched_${tensor}_${copy} = vec4u();`))}
  ${again}`,
    again,
    sums: (name) => lines(columns, (column) => `var ${name}_${column} = ${RESULT}();`),
    advance: `
    workgroupBarrier();
    ${eachCopy(
      (tensor, copy) =>
        `tiles[(${tensor * STREAM}u + i / ${words}u) * ${step}u + i % ${words}u] = fetched_${tensor}_${copy};`,
    )}
    workgroupBarrier();
    if (more) {
      ${fetch('next_at', (name) => `next_${name}_base`)}
    }`,
    dots: (results) => `
    ${lines(results.length, (tensor) => {
      const product = `${results[tensor]}_product`
      const rows = `(${tensor * STREAM}u + side * ${SIDE}u) * ${step}u`
      // Zeros that are not spelt out are given once, not in each round.
      return `var ${product} = ${RESULT}();
    ${lines(inner, (i) => multiply(product, `own_${tensor}_${i}`, load(RIGHT, 'tiles', `${rows} + ${2 * i}u`, true, `${step}u`)))}
    subgroupMatrixStore<row_major>(&scores, corner + ${tensor * SCORES}u, ${product}, ${SCORE_STEP}u);`
    })}
    workgroupBarrier();
    ${lines(results.length, (tensor) =>
      lines(
        2,
        (i) => `var ${results[tensor]}${i} = scores[quad + ${tensor * SCORES + i * HALF * SCORE_STEP}u];`,
      ),
    )}`,
    mix: (sums, place, given) => `{
    // What was mixed before has been read.
    workgroupBarrier();
    ${lines(2, (i) => {
      const place = `shares[(down + ${i * HALF}u) * ${SHARE_STEP}u + across]`
      return `${place} = vec2u(pack2x16float(${given}${i}.xy), pack2x16float(${given}${i}.zw));`
    })}
    workgroupBarrier();
    ${lines(STREAM / SIDE, (i) => {
      const rows = `${(place * STREAM + i * SIDE) * step}u + side * ${words / 2}u`
      return `let share${i} = ${load(LEFT, 'shares', `own_row * ${SHARE_STEP}u + ${(i * SIDE) / 4}u`, false, `${SHARE_STEP}u`)};
    ${lines(columns, (column) =>
      multiply(
        `${sums}_${column}`,
        `share${i}`,
        load(RIGHT, 'tiles', `${rows} + ${2 * column}u`, false, `${step}u`),
      ),
    )}`
    })}
  }`,
    store: (sums, factors, put) =>
      lines(
        columns,
        (column) => `${park(`${sums}_${column}`)}
    ${lines(2, (i) =>
      put(
        `(down + ${i * HALF}u)`,
        `(across / 4u * ${headDim / 2}u + ${column * SIDE}u + across % 4u * 4u)`,
        `(${factors}[${i}] * scores[quad + ${i * HALF * SCORE_STEP}u])`,
      ),
    )}`,
      ),
  }
}

/** Of a thread, in every kernel of tiles. */
export const THREAD = `
  let across = thread % ${ACROSS}u;
  let down = thread / ${ACROSS}u;`

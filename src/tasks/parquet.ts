/**
 * Rows of Parquet files, with every digit of their integers and decimals. Reads the file named, nothing else, one
 * column of one row group at a time: a damaged page ends the reading and leaves nothing behind that could still fail.
 */

import {
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { hex } from '../bytes.ts'
import { UserError } from '../errors.ts'
import { integerValue } from './exact-json.ts'

/** Files that claim more rows than this are refused, before anything is made for them. */
const MOST_ROWS = 10_000_000

/** Pages that claim to be longer than this when unpacked, in bytes, are refused. */
const LONGEST_PAGE = 2 ** 28

const bounded: typeof compressors = Object.fromEntries(
  Object.entries(compressors).map(([codec, unpack]) => [
    codec,
    (input: Uint8Array, length: number) => {
      if (!(length >= 0 && length <= LONGEST_PAGE)) throw new Error(`a page claims ${length} bytes`)
      return unpack(input, length)
    },
  ]),
)

/**
 * Rows of a Parquet file, in its order, of its columns that hold single values. Integers that a double does not hold,
 * and decimals, are text.
 *
 * @throws UserError where it cannot be read.
 */
export async function readParquet(path: string): Promise<Record<string, unknown>[]> {
  try {
    return await readRows(path)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new UserError(
      `Cannot read the task file ${path} (${code ?? message}). Check the path and the file.`,
    )
  }
}

async function readRows(path: string): Promise<Record<string, unknown>[]> {
  const file = await asyncBufferFromFile(path)
  const metadata = await parquetMetadataAsync(file)
  const groups = metadata.row_groups.map((group) => Number(group.num_rows))
  const count = groups.reduce((sum, rows) => sum + rows, 0)
  if (!groups.every((rows) => rows >= 0) || count > MOST_ROWS)
    throw new Error(`it claims ${count} rows, and at most ${MOST_ROWS} are read`)
  // A column in itself is a list or a structure: no question and no answer.
  const columns = parquetSchema(metadata).children.filter(({ children }) => children.length === 0)
  // Decimals are read as the integers that they are stored as: as doubles they would lose digits.
  const raw: FileMetaData = {
    ...metadata,
    schema: metadata.schema.map((element) =>
      isStoredDecimal(element) ? { ...element, converted_type: undefined, logical_type: undefined } : element,
    ),
  }
  const found: Record<string, unknown>[] = []
  for (const [i, rows] of groups.entries()) {
    const rowStart = found.length
    const read: [name: string, values: unknown[]][] = []
    for (const { element } of columns) {
      const { name } = element
      const options = { file, metadata: raw, columns: [name], compressors: bounded }
      const column = await parquetReadObjects({ ...options, rowStart, rowEnd: rowStart + rows })
      if (column.length !== rows)
        throw new Error(`column ${name} has ${column.length} of ${rows} rows in part ${i + 1}`)
      const isDecimal = isStoredDecimal(element)
      const values = column.map((row) =>
        isDecimal ? decimalText(row[name], element.scale ?? 0) : plainValue(row[name]),
      )
      read.push([name, values])
    }
    for (let row = 0; row < (read[0]?.[1].length ?? 0); row++)
      found.push(Object.fromEntries(read.map(([name, values]) => [name, values[row]])))
  }
  return found
}

type SchemaElement = FileMetaData['schema'][number]

const isStoredDecimal = ({ converted_type, type }: SchemaElement): boolean =>
  converted_type === 'DECIMAL' && type !== 'BYTE_ARRAY'

const plainValue = (value: unknown): unknown => (typeof value === 'bigint' ? integerValue(value) : value)

/** The decimal that an integer, or its big-endian bytes, stores with so many digits after the point. */
function decimalText(value: unknown, scale: number): string | null {
  if (value === null || value === undefined) return null
  if (!(scale >= 0 && scale <= 100)) throw new Error(`a decimal claims ${scale} digits after its point`)
  const bytes = value instanceof Uint8Array ? hex(value) : null
  const unscaled =
    bytes === null ? BigInt(value as number | bigint) : BigInt.asIntN(bytes.length * 4, BigInt(`0x${bytes}`))
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  const point = digits.length - scale
  const text = scale === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`
  return unscaled < 0n ? `-${text}` : text
}

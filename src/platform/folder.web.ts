/** The part of OPFS's interface that the project uses. Types only. */

export interface Folder {
  readonly kind: 'directory'
  getDirectoryHandle(name: string, options?: { create?: boolean }): Promise<Folder>
  getFileHandle(name: string, options?: { create?: boolean }): Promise<Stored>
  removeEntry(name: string, options?: { recursive?: boolean }): Promise<void>
  entries(): AsyncIterable<[string, Folder | Stored]>
}

export interface Stored {
  readonly kind: 'file'
  getFile(): Promise<Blob & { readonly lastModified: number }>
  /** Workers alone have it. */
  createSyncAccessHandle?(): Promise<InPlace>
  createWritable?(options: { keepExistingData: boolean }): Promise<Stream>
  /** Into the place of what is there. Not every browser has it. */
  move?(folder: Folder, name: string): Promise<void>
}

export interface InPlace {
  write(bytes: Uint8Array, options: { at: number }): number
  truncate(length: number): void
  flush(): void
  close(): void
}

export interface Stream {
  write(
    change: { type: 'write'; position: number; data: Uint8Array } | { type: 'truncate'; size: number },
  ): Promise<void>
  close(): Promise<void>
}

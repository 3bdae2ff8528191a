/** Paths of files, as the system writes them; in a browser path.web.ts. */
export { basename, dirname, join } from 'node:path'

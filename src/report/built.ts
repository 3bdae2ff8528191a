/** The files of the built user interface (src/web), from where the build left them; in a browser built.web.ts. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { UserError } from '../errors.ts'

/** The build's folder, the same from src/report and from dist/report. */
let folder: string | URL = new URL('../../dist/web/', import.meta.url)

/** Says where app.js and app.css of dist/web are to be had. */
export function setReportPage(place: string | URL): void {
  folder = place
}

/** Whether a report can be written: here always. */
export const hasPage = (): boolean => true

/** @throws UserError where the package was not built. */
export async function builtFile(name: 'app.js' | 'app.css'): Promise<string> {
  const path = folder instanceof URL ? fileURLToPath(folder) : folder
  return readFile(`${path}/${name}`, 'utf8').catch(() => {
    throw new UserError(`The page's ${name} is missing from ${path}: run npm run build.`)
  })
}

/** The files of the built user interface (src/web), fetched from where the page's author put them: dist/web of the package. */
import { UserError } from '../errors.ts'

let place: URL | undefined

export function setReportPage(address: string | URL): void {
  place = new URL(address, globalThis.location.href)
}

export const hasPage = (): boolean => place !== undefined

export async function builtFile(name: 'app.js' | 'app.css'): Promise<string> {
  const answer = await fetch(new URL(name, place))
  if (!answer.ok) throw new UserError(`The report's ${name} is not at ${answer.url}: put dist/web there.`)
  return answer.text()
}

/** What the project asks of the machine that it runs on, where that is a browser's tab. */
import manifest from '../../package.json' with { type: 'json' }

export const cores = (): number => navigator.hardwareConcurrency

/** A browser tells 8 GiB at most, and some nothing; what a tab may fill is about half of it. */
export const memoryBytes = (): number => (deviceMemory() / 2) * 2 ** 30

const deviceMemory = (): number => (navigator as { deviceMemory?: number }).deviceMemory ?? 4

export const machine = () => ({
  processor: 'unknown',
  cores: cores(),
  memoryGiB: Math.round(deviceMemory()),
  system: platformOf(),
})

interface UserAgentData {
  platform: string
  brands: { brand: string; version: string }[]
}

/** Firefox and Safari have none. */
const agent = (): UserAgentData | undefined => (navigator as { userAgentData?: UserAgentData }).userAgentData

const platformOf = (): string => agent()?.platform || navigator.platform || 'unknown'

export function platformVersions(): Record<string, string> {
  // Among the brands is one that is made up, so that nobody relies on a list of them.
  const brand = agent()?.brands.find(({ brand: name }) => !/not.*brand/i.test(name))
  return { browser: brand ? `${brand.brand} ${brand.version}` : navigator.userAgent }
}

export const builtInModel = '/policies/small'

export const packageVersion: string = manifest.version

export const say = (text: string): void => console.warn(text)

export const environment = (): undefined => undefined

export const wholeStory = (error: unknown): string =>
  error instanceof Error ? `${error.stack ?? error.message}` : String(error)

export const allowListeners = (): void => {}

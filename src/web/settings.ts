/** A run's settings as names and values: what all arms have alike once, and by arm what they do not. Pure. */
import type { RunView } from '../view/types.ts'
import { flat } from './format.ts'

export type Setting = [name: string, value: string]

/** Values by arm, under each setting's name; under `null`, those of the run as a whole. */
type Settings = Map<string, Map<string | null, string>>

/** What is listed apart: who reads whom follows from the names of the sights, and is long. */
const isListed = (name: string) => !/^protocol\.rounds\.\d+\.sights$/.test(name)

function settingsOf(run: RunView): Settings {
  const found: Settings = new Map()
  const put = (arm: string | null, entries: readonly Setting[]) => {
    for (const [name, value] of entries) {
      const values = found.get(name) ?? new Map<string | null, string>()
      found.set(name, values.set(arm, value))
    }
  }
  put(null, [
    ['model', run.model],
    ['seeds', run.seeds.join(', ')],
    ['arms', run.arms.join(', ')],
    ['baseline', run.baseline],
    ['contrasts', run.contrasts.map(({ arm, against }) => `${arm} - ${against}`).join(', ')],
    ...flat(run.identity.shared),
  ])
  for (const arm of run.arms) put(arm, flat(run.identity.arms[arm]))
  return found
}

/** The value that a setting has in all arms; undefined where they differ. */
function common(values: ReadonlyMap<string | null, string> | undefined, arms: readonly string[]) {
  if (!values) return undefined
  const all = values.has(null) ? [values.get(null)] : arms.map((arm) => values.get(arm))
  return all.every((value) => value === all[0]) ? all[0] : undefined
}

/** What all arms share, and what each has otherwise than another. */
export function settingGroups(run: RunView): { shared: Setting[]; arms: { arm: string; own: Setting[] }[] } {
  const settings = [...settingsOf(run)].filter(([name]) => isListed(name))
  const shared = settings.flatMap(([name, values]): Setting[] => {
    const value = common(values, run.arms)
    return value === undefined ? [] : [[name, value]]
  })
  const differing = settings.filter(([, values]) => common(values, run.arms) === undefined)
  return {
    shared,
    arms: run.arms.map((arm) => ({
      arm,
      own: differing.map(([name, values]): Setting => [name, values.get(arm) ?? 'none']),
    })),
  }
}

/** A setting in which runs differ, and its value in each; `undefined`: a run has none such. */
export interface DifferingSetting {
  name: string
  values: (string | undefined)[]
}

/**
 * Settings in which runs differ: by arm where the arms of one of them differ. An arm that one run alone has is no
 * difference of settings: the lists of arms say that.
 */
export function differingSettings(runs: readonly RunView[]): DifferingSetting[] {
  const all = runs.map(settingsOf)
  const names = [...new Set(all.flatMap((settings) => [...settings.keys()]))]
  const isDifferent = ({ values }: DifferingSetting) => values.some((value) => value !== values[0])
  const havingArm = (arm: string) => runs.flatMap((run, r) => (run.arms.includes(arm) ? [r] : []))
  return names.filter(isListed).flatMap((name) => {
    const values = all.map((settings, r) => common(settings.get(name), runs[r].arms))
    const isWhole = values.every((value, r) => value !== undefined || !all[r].has(name))
    if (isWhole) return [{ name, values }].filter(isDifferent)
    const arms = [...new Set(runs.flatMap((run) => run.arms))]
    return arms
      .map((arm) => ({
        arm,
        name: `${arm}: ${name}`,
        values: all.map((settings) => settings.get(name)?.get(arm)),
      }))
      .filter(({ arm, values }) => {
        const having = havingArm(arm)
        return having.some((r) => values[r] !== values[having[0]])
      })
      .map(({ name, values }) => ({ name, values }))
  })
}

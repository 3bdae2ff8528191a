/** Small choices that several parts of the page offer: which arm, and which policy writes. */
import type { PolicyChoice } from './host.ts'
import { run } from './run-state.ts'
import { type ArmName, armNames } from './settings.ts'
import { arm, play, policy } from './stage.ts'
import { failed } from './state.ts'
import { toneOf } from './tones.ts'

export function ArmChip({
  name,
  pressed,
  onPress,
}: {
  name: ArmName
  pressed: boolean
  onPress: () => void
}) {
  return (
    <button
      type="button"
      class="chip arm"
      aria-pressed={pressed}
      style={{ '--tone': toneOf(name) }}
      onClick={onPress}
    >
      {name}
    </button>
  )
}

/** Untrained, or trained as far as the run has come. */
export function PolicyPicker() {
  const trained = (run.value?.jobs ?? []).filter(({ seed, steps }) => seed !== null && steps.done > 0)
  if (trained.length === 0) return null
  const options = trained.flatMap(
    ({ name, seed, steps }): { key: string; title: string; choice: PolicyChoice }[] => {
      const its = armNames.find((each) => name.startsWith(`${each}-`))
      return its
        ? [
            {
              key: name,
              title: `${its}, seed ${seed}, after ${steps.done} steps`,
              choice: { arm: its, seed: seed! },
            },
          ]
        : []
    },
  )
  const now = policy.value
  return (
    <label class="policy">
      <span class="muted">Written by</span>{' '}
      <select
        value={now === null ? '' : `${now.arm}-s${now.seed}`}
        onChange={(event) => {
          const found = options.find(({ key }) => key === event.currentTarget.value)
          policy.value = found?.choice ?? null
          if (found?.choice) arm.value = found.choice.arm
          play().catch(failed)
        }}
      >
        <option value="">the model before training</option>
        {options.map(({ key, title }) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      </select>
    </label>
  )
}

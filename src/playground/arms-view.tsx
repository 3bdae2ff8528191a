/** The experiment, as two arms side by side: who reads whom, in how many rounds, and what training pays for. */
import { rules } from './credit-rules.ts'
import { worldTitles } from './problem-picker.tsx'
import { questions } from './questions.ts'
import { hasNewSeeds, isChanged, run, running, runSettings, start } from './run-state.ts'
import {
  type ArmName,
  armNames,
  bounds,
  type DeviceName,
  deviceNames,
  ruleNames,
  type Settings,
  worldNames,
} from './settings.ts'
import { pose } from './stage.ts'
import { facts, failed, set, setArm, settings } from './state.ts'
import { Term } from './term.tsx'
import { toneOf } from './tones.ts'
import { Wires } from './wires.tsx'
import { presetOf, presets } from './wiring.ts'

const sightTitles: Record<string, string> = {
  own: 'own',
  shared: 'all',
  ring: 'ring',
  star: 'star',
  chain: 'chain',
}

/** Each choice, and what it does. */
const devices: Readonly<Record<DeviceName, { title: string; says: string }>> = {
  auto: {
    title: 'the faster one',
    says: 'where this browser gives a GPU, its numbers are checked when training begins; then it and WebAssembly take the same step, and the faster one trains.',
  },
  wasm: {
    title: 'WebAssembly',
    says: 'not used. WebAssembly gives the same numbers in every browser.',
  },
  webgpu: {
    title: 'the GPU',
    says: 'used whether it is faster or not, once its numbers were checked. It draws other samples than WebAssembly with the same seed.',
  },
}

export function Arms() {
  const { world, steps, holdout, seeds, arms, device } = settings.value
  const alike = JSON.stringify(arms.baseline) === JSON.stringify(arms.recipe)
  const chosen = JSON.stringify({ world, arms })
  return (
    <section id="arms" aria-labelledby="arms-title">
      <h2 id="arms-title">Ask a question</h2>
      <p class="lede">
        Two <Term word="arm">arms</Term> that differ in one thing, trained from the same{' '}
        <Term word="seed">seeds</Term> on the same problems. Draw an arrow from a note to whoever shall read
        it, and choose what training pays for.
      </p>
      <fieldset class="chips questions">
        <legend class="hidden">Questions to begin with</legend>
        {questions.map(({ title, says, set: its }) => (
          <button
            key={title}
            type="button"
            class="chip"
            title={says}
            aria-pressed={JSON.stringify({ world: its.world, arms: its.arms }) === chosen}
            onClick={() => choose(its)}
          >
            {title}
          </button>
        ))}
      </fieldset>
      <div class="arms">
        {armNames.map((name) => (
          <ArmCard key={name} name={name} />
        ))}
      </div>
      <div class="terms-of-run">
        <label>
          World
          <select
            value={world}
            onChange={(event) => choose({ world: event.currentTarget.value as (typeof worldNames)[number] })}
          >
            {worldNames.map((name) => (
              <option key={name} value={name}>
                {worldTitles[name].title}
              </option>
            ))}
          </select>
        </label>
        <NumberField
          label="Training steps"
          value={steps}
          {...bounds.steps}
          onChange={(value) => set({ steps: value })}
        />
        <NumberField
          label="Held-out problems"
          value={holdout}
          {...bounds.holdout}
          onChange={(value) => set({ holdout: value })}
        />
        <NumberField
          label="Seeds"
          value={seeds.length}
          min={1}
          max={bounds.seeds.max}
          onChange={(value) =>
            set({
              seeds: Array.from(
                { length: value },
                (_, i) => seeds[i] ?? Math.max(...seeds) + 1 + i - seeds.length,
              ),
            })
          }
        />
        <label>
          Computed by
          <select
            value={device}
            onChange={(event) => set({ device: event.currentTarget.value as DeviceName })}
          >
            {deviceNames.map((name) => (
              <option key={name} value={name}>
                {devices[name].title}
              </option>
            ))}
          </select>
        </label>
        <span class="grow" />
        <button
          type="button"
          class="primary train"
          id="train"
          disabled={running.value || facts.value === null || isDone()}
          onClick={() => {
            start().catch(failed)
            document.getElementById('training')?.scrollIntoView({ behavior: 'smooth' })
          }}
        >
          {trainTitle()}
        </button>
      </div>
      <p class="hint">
        <Term word="WebGPU" />: {devices[device].says}
      </p>
      {alike ? (
        <p class="hint">Both arms are the same: what comes out is how much chance alone can do.</p>
      ) : (
        <p class="hint">
          <Term word="GRPO" /> with <Term word="LoRA" />, {steps} steps of twelve boards, {armNames.length}{' '}
          arms, {seeds.length} {seeds.length === 1 ? 'seed' : 'seeds'}: some minutes on two cores, in this tab
          alone.
        </p>
      )}
    </section>
  )
}

/** Sets it, and puts a problem of its world on the stage. */
function choose(changes: { world: Settings['world'] } & Partial<Settings>): void {
  set(changes)
  const { problem } = settings.peek()
  if ('world' in problem && problem.world !== changes.world) {
    pose({ world: changes.world, index: 0 }).catch(failed)
  }
}

/** Whether all that is set is trained and evaluated. */
const isDone = (): boolean => !isChanged.value && !hasNewSeeds.value && run.value?.state === 'finished'

function trainTitle(): string {
  if (running.value) return 'Training'
  if (runSettings.value === null || isChanged.value) return 'Train'
  if (isDone()) return 'Trained'
  return run.value?.state === 'finished' ? 'Train the new seeds' : 'Go on training'
}

function ArmCard({ name }: { name: ArmName }) {
  const { reads, rounds, credit } = settings.value.arms[name]
  const preset = presetOf(reads)
  return (
    <div class="arm-card" style={{ '--tone': toneOf(name) }}>
      <h3>{name}</h3>
      <p class="port-names">
        <span>notes 1 to 4</span>
      </p>
      <Wires
        wiring={reads}
        tone={toneOf(name)}
        from="note"
        to="reader"
        label={`Who reads whom in ${name}`}
        onChange={(next) => setArm(name, { reads: next })}
      />
      <p class="port-names">
        <span>readers 1 to 4</span>
      </p>
      <fieldset class="chips">
        <legend>Reads</legend>
        {Object.keys(presets).map((sight) => (
          <button
            key={sight}
            type="button"
            class="chip small"
            aria-pressed={preset === sight}
            onClick={() => setArm(name, { reads: presets[sight] })}
          >
            {sightTitles[sight] ?? sight}
          </button>
        ))}
        {preset === undefined ? <span class="muted">drawn</span> : null}
      </fieldset>
      <div class="fields">
        <NumberField
          label="Rounds"
          value={rounds}
          {...bounds.rounds}
          onChange={(value) => setArm(name, { rounds: value })}
        />
        <label class="credit">
          Training pays
          <select
            value={credit}
            onChange={(event) => setArm(name, { credit: event.currentTarget.value as typeof credit })}
          >
            {ruleNames.map((rule) => (
              <option key={rule} value={rule}>
                {rules[rule].title}
              </option>
            ))}
          </select>
        </label>
      </div>
      <p class="muted pays">{rules[credit].pays}</p>
    </div>
  )
}

function NumberField({
  label,
  value,
  min,
  max,
  onChange,
}: {
  label: string
  value: number
  min: number
  max: number
  onChange: (value: number) => void
}) {
  return (
    <label class="number-field">
      {label}
      <input
        type="number"
        inputMode="numeric"
        value={value}
        min={min}
        max={max}
        step={1}
        onChange={(event) => {
          const next = Math.round(Number(event.currentTarget.value))
          const bounded = Math.min(max, Math.max(min, Number.isFinite(next) ? next : value))
          event.currentTarget.value = String(bounded)
          onChange(bounded)
        }}
      />
    </label>
  )
}

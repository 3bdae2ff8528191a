/** What a visitor takes along: the run's folder, the report, the experiment as TypeScript, and a link to all settings. */
import { useSignal } from '@preact/signals'
import { Copy, save, Wide } from '../web/controls.tsx'
import { codeOf } from './experiment.ts'
import { run, running, runSettings } from './run-state.ts'
import { settingsLink } from './settings.ts'
import { failed, host, settings } from './state.ts'

const here = () => `${location.origin}${location.pathname}#${settingsLink(settings.value)}`

export function TakeAway() {
  const its = runSettings.value
  const name = run.value?.name ?? 'run'
  // A run that goes on rewrites its files as they are read.
  const still = its !== null && run.value !== null && !running.value
  const started = its !== null && run.value !== null
  return (
    <section id="take-away" aria-labelledby="take-away-title">
      <h2 id="take-away-title">Take it along</h2>
      {running.value ? <p class="hint">The run can be saved once it is paused or done.</p> : null}
      <div class="take">
        <div>
          <h3>The run</h3>
          <p>
            A folder of files that a person can read: every note, reply and grade, the metrics, the adapters.
            The command line reads it: <code>message-board report</code>, <code>power</code> and{' '}
            <code>regrade</code>.
          </p>
          <Save
            disabled={!still}
            onSave={async () => save(`${name}.zip`, 'application/zip', await host.archive(its!))}
          >
            Save {name}.zip
          </Save>
        </div>
        <div>
          <h3>The report</h3>
          <p>
            One HTML file with the verdict, the curves and every board. It opens without a network and can be
            mailed.
          </p>
          <Save
            disabled={!still}
            onSave={async () => save(`${name}.html`, 'text/html', await host.report(its!))}
          >
            Save the report
          </Save>
          {started ? (
            <a class="button" href="#/section/verdict">
              Look into it here
            </a>
          ) : null}
        </div>
        <div>
          <h3>A link</h3>
          <p>
            It holds all settings after the <code>#</code>, which browsers send to nobody.
          </p>
          <Copy text={here}>Copy the link</Copy>
        </div>
        <div class="wide">
          <h3>The experiment, in TypeScript</h3>
          <Wide label="The experiment in TypeScript">
            <pre>
              <code>{codeOf(settings.value)}</code>
            </pre>
          </Wide>
          <Copy text={() => codeOf(settings.value)}>Copy the code</Copy>
        </div>
      </div>
    </section>
  )
}

function Save({
  children,
  disabled,
  onSave,
}: {
  children: preact.ComponentChildren
  disabled: boolean
  onSave: () => Promise<void>
}) {
  const busy = useSignal(false)
  return (
    <button
      type="button"
      disabled={disabled || busy.value}
      onClick={() => {
        busy.value = true
        onSave()
          .catch(failed)
          .finally(() => {
            busy.value = false
          })
      }}
    >
      {busy.value ? 'Packing' : children}
    </button>
  )
}

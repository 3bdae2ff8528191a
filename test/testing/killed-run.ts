/**
 * A program that runs an experiment and dies by SIGKILL as soon as a training has taken its second step, or so many:
 *
 *   node --import tsx test/testing/killed-run.ts EXPERIMENT MODEL OUT
 */
import { experimentOf } from '../../src/cli/experiment-file.ts'
import { runExperiment } from '../../src/experiment/run.ts'
import { cutDown } from './cut-down.ts'

const [file, model, out] = process.argv.slice(2)
await runExperiment(cutDown(await experimentOf(file), model), {
  out,
  onEvent: (event) => {
    if (event.type === 'step' && event.metrics.step === 2) process.kill(process.pid, 'SIGKILL')
  },
})

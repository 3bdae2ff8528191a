/** A thread of the optimiser's: keeps shares of trainables' arrays, takes tasks on them one after another. */
import { adamStep, globalNorm } from './adam.ts'
import type { Answer, Share, Task } from './threadedAdam.ts'
import { thisThread } from './threads.ts'

const port = thisThread()
const shares = new Map<number, Share>()

/** Gives the norm of each of the share's gradients where that was asked for. */
function perform(task: Task): number[] {
  if (task.kind === 'hold') {
    shares.set(task.id, task.share)
    return []
  }
  const share = shares.get(task.id)
  if (share === undefined) throw new Error(`trainable ${task.id} was let go`)
  const { parameters, gradients, first, second } = share
  switch (task.kind) {
    case 'norm':
      return gradients.map((gradient) => globalNorm([gradient]))
    case 'step':
      adamStep(parameters, gradients, { step: task.taken, first, second }, task.norm, task.options)
      return []
    case 'release':
      shares.delete(task.id)
      return []
  }
}

port.onMessage((task: Task) => {
  let answer: Answer
  try {
    answer = { norms: perform(task) }
  } catch (error) {
    answer = { error: String(error) }
  }
  port.post(answer)
})

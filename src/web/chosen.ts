/** A setting of the page that lives in the address, used as a signal is. Signals and the address alone. */
import { computed } from '@preact/signals'
import type { Wording } from './choices.ts'
import { choices, choose } from './route.ts'

export interface Chosen<T> {
  /** Reading it in a component draws that again when it changes. */
  value: T
}

/** The setting called `name`. What is not in the address is as the wording reads nothing. */
export function chosen<T>(name: string, { read, write }: Wording<T>): Chosen<T> {
  // Its own text alone decides: another choice changes nothing here.
  const text = computed(() => choices.value[name] ?? '')
  const current = computed(() => read(text.value))
  return {
    get value() {
      return current.value
    },
    set value(next) {
      choose({ [name]: write(next) })
    },
  }
}

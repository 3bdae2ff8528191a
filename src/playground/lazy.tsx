/** A component that is loaded once it is shown, so that the page need not wait for it. */
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { failed } from './state.ts'

export type Lazy<Props> = () => Promise<ComponentType<Props>>

/** Loads it once, however often it is shown. */
export function lazy<Props>(load: Lazy<Props>): Lazy<Props> {
  let loaded: Promise<ComponentType<Props>> | undefined
  return () => {
    loaded ??= load()
    return loaded
  }
}

export function Loaded<Props extends object>({ of, props }: { of: Lazy<Props>; props: Props }) {
  // In a box: a state setter would call a component that it is given.
  const [loaded, setLoaded] = useState<{ Component: ComponentType<Props> } | null>(null)
  useEffect(() => {
    of().then((Component) => setLoaded({ Component }), failed)
  }, [of])
  if (loaded === null) return <p class="muted">Loading</p>
  const { Component } = loaded
  return <Component {...props} />
}

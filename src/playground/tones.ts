/** The arms' colours, those that the report gives them, and what they are called. Pure. */
import { type ArmName, armNames } from './settings.ts'

export const toneOf = (name: ArmName): string => `var(--arm-${armNames.indexOf(name)})`

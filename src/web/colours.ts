/** The colours of what is compared: grey for bases, one of eight for each arm (style.css says why these). Pure. */
import type { Side } from '../view/types.ts'

/** As many as --arm-0, --arm-1, ... in style.css. A ninth arm has the first's again. */
export const ARM_COLOURS = 8

export const colourOf = ({ arm }: Pick<Side, 'arm'>): string =>
  arm === null ? 'var(--base)' : `var(--arm-${arm % ARM_COLOURS})`

/** Lines of later arms are broken too, so that no colour has to be told apart from seven others by itself. */
export const dashOf = ({ arm }: Pick<Side, 'arm'>): string | undefined =>
  arm === null || arm < 4 ? undefined : ['7,3', '2,2', '9,3,2,3', '12,4'][arm % 4]

/** How the library is built for browsers: a module NAME.ts that has a sibling NAME.web.ts is replaced by it. */
import { existsSync } from 'node:fs'
import type { Plugin } from 'vite'

export function webSiblings(): Plugin {
  return {
    name: 'web-siblings',
    enforce: 'pre',
    async resolveId(source, importer, options) {
      if (!source.startsWith('.') || !source.endsWith('.ts') || source.endsWith('.web.ts')) return null
      const found = await this.resolve(source, importer, { ...options, skipSelf: true })
      const sibling = found?.id.replace(/\.ts$/, '.web.ts')
      return sibling !== undefined && existsSync(sibling) ? sibling : null
    },
  }
}

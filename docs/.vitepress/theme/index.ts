/** VitePress's own theme in the report's colours, with the system's fonts as the report has. */
import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme-without-fonts'
import './style.css'

export default {
  extends: DefaultTheme,
  enhanceApp({ router }) {
    // Where pages are built there is no document.
    if (typeof document === 'undefined') return
    // Every other page has its main landmark from the theme; the first page's is to be found by screen readers as well.
    router.onAfterRouteChange = () => {
      document.querySelector('.VPHome')?.setAttribute('role', 'main')
    }
  },
} satisfies Theme

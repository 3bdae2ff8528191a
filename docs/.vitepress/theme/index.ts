/** VitePress's own theme in the report's colours, with the system's fonts as the report has. */
import DefaultTheme from 'vitepress/theme-without-fonts'
import './style.css'

export default DefaultTheme

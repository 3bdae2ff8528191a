/** A page for each file of the repository that the documentation leads to. */
import { linkedSources, sourceMarkdown } from '../.vitepress/links.ts'

export default {
  paths: () => linkedSources().map(({ path, page }) => ({ params: { page }, content: sourceMarkdown(path) })),
}

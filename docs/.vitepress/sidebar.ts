/** The pages of the site in the order of the sidebar: every page of docs/ has its place here (test/docs.test.ts). */

export interface Chapter {
  text: string
  items: { text: string; link: string }[]
}

const page = (text: string, name: string) => ({ text, link: `/${name}` })

export const sidebar: Chapter[] = [
  {
    text: 'Start',
    items: [
      page('What it is', ''),
      page('Ten minutes', 'getting-started'),
      page('How it works', 'how-it-works'),
      page('In the browser', 'playground'),
      page('Questions', 'faq'),
      page('Glossary', 'glossary'),
    ],
  },
  {
    text: 'Make it yours',
    items: [
      page('All of it on one page', 'make-it-yours'),
      page('Your task', 'your-task'),
      page('A world with parts', 'your-parts'),
      page('Your board', 'your-board'),
      page('Your protocol', 'your-protocol'),
      page('Your rule of credit', 'your-credit'),
      page('Your grader', 'your-grader'),
      page('A reward between 0 and 1', 'your-reward'),
      page('Your training loop', 'your-loop'),
    ],
  },
  {
    text: 'Findings',
    items: [
      page('The map of credit', 'credit-map'),
      page('The reference, analysed again', 'reference-reanalysed'),
      page('Calibration in simulation', 'calibration'),
      page('Calibration on real training', 'calibration-training'),
    ],
  },
  {
    text: 'Look it up',
    items: [
      page('The command line', 'command-line'),
      page('The API', 'api'),
      page('The run folder', 'run-folder'),
      page('results.json', 'results'),
      page('Reports and dashboard', 'seeing-a-run'),
      page('How it looks', 'screens'),
      page('To and from other tools', 'exports'),
      page('The verdict', 'verdict'),
      page('Credit', 'credit'),
      page('Worlds', 'worlds'),
      page('Answers and the verifier', 'grading'),
      page('Differences to Math-Verify', 'grading-disagreements'),
    ],
  },
  {
    text: 'Models and machines',
    items: [
      page('Models, problems, endpoints', 'models'),
      page('The built-in engine', 'engine'),
      page('Speed', 'speed'),
      page('GPUs', 'gpu'),
      page('Browsers', 'browser'),
      page('Servers', 'tinker'),
      page('What can go wrong', 'robustness'),
    ],
  },
  {
    text: 'The project',
    items: [
      page('Related work', 'related-work'),
      page('Changes', 'changelog'),
      page('Contributing', 'contributing'),
    ],
  },
]

// Prompts by seat: a critic who is asked for mistakes before anybody answers. A role is a function of the problem, the seat
// and what it sees.
import {
  defineExperiment,
  notePrompt,
  type Prompt,
  type ProtocolChoices,
  readPrompt,
  shared,
} from 'message-board'

const critic: Prompt = ({ question }, _seat, seen) => {
  const task = 'Name the first mistake in them, or say that there is none.'
  return [{ role: 'user', content: `${question}\n\nNotes:\n${(seen ?? []).join('\n')}\n\n${task}` }]
}

const criticised: ProtocolChoices = {
  name: 'criticised',
  seats: ['one', 'two', 'three', 'critic'].map((name) => ({ name })),
  rounds: [
    { name: 'note', speakers: [0, 1, 2], tokens: 'note', prompt: ({ question }) => notePrompt(question) },
    { name: 'criticism', speakers: [3], sees: shared, tokens: 'note', prompt: critic },
    {
      name: 'reply',
      speakers: [0, 1, 2],
      // Its own note, and what the critic said.
      sees: (seat) => [[0, seat], 3],
      tokens: 'reply',
      prompt: ({ question }, _seat, seen) => readPrompt(question, seen ?? []),
    },
  ],
}

export default defineExperiment({
  arms: { own: { reads: (seat) => [seat] }, criticised: { protocol: criticised } },
  baseline: 'own',
  seeds: [17, 18],
})

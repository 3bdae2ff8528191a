/** Shell completion, made from the command tree itself: every command, its options and their choices. Pure. */
import type { Command, Option } from 'commander'

/** What completes a program in each shell, as that shell's own script. */
export const completions = {
  bash: (root: Command) => bash(root.name(), commandsOf(root)),
  zsh: (root: Command) => zsh(root.name(), commandsOf(root)),
  fish: (root: Command) => fish(root.name(), commandsOf(root)),
}
export type Shell = keyof typeof completions
export const shells = Object.keys(completions) as Shell[]

interface Completed {
  name: string
  says: string
  options: { flags: string[]; says: string; takesValue: boolean; choices: readonly string[] }[]
  /** Of its arguments, where they are no files or folders. */
  choices: readonly string[]
}

function commandsOf(root: Command): Completed[] {
  const help = root.createHelp()
  return help
    .visibleCommands(root)
    .filter((command) => command.name() !== 'help')
    .map((command) => ({
      name: command.name(),
      says: firstClause(command.description()),
      options: help.visibleOptions(command).map((option: Option) => ({
        flags: [option.short, option.long].filter((flag) => flag !== undefined),
        says: firstClause(option.description),
        takesValue: option.required || option.optional,
        choices: option.argChoices ?? [],
      })),
      choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    }))
}

/** What fits beside a word in a menu. */
const firstClause = (text: string) => text.split(/[;:(]/)[0].trim()

/** In single quotes, for any of the shells. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
const functionOf = (name: string) => `_${name.replaceAll('-', '_')}`

function bash(name: string, commands: readonly Completed[]): string {
  const choices = commands.flatMap((command) =>
    command.options.flatMap(({ flags, choices, takesValue }) =>
      takesValue
        ? [
            `    ${flags.map((flag) => quoted(`${command.name} ${flag}`)).join('|')}) words=${quoted(choices.join(' '))} ;;`,
          ]
        : [],
    ),
  )
  const options = commands.map(({ name, options, choices }) => {
    const flags = options.flatMap(({ flags }) => flags.filter((flag) => flag.startsWith('--')))
    return `        ${name}) [[ $current == -* ]] && words=${quoted(flags.join(' '))} || words=${quoted(choices.join(' '))} ;;`
  })
  // Where nothing is offered, \`-o default\` completes files.
  return `# ${name} completion for bash: source <(${name} completion bash)
${functionOf(name)}() {
  local current=\${COMP_WORDS[COMP_CWORD]} words=''
  if ((COMP_CWORD == 1)); then
    words=${quoted(commands.map(({ name }) => name).join(' '))}
  else
    case "\${COMP_WORDS[1]} \${COMP_WORDS[COMP_CWORD - 1]}" in
${choices.join('\n')}
    *)
      case "\${COMP_WORDS[1]}" in
${options.join('\n')}
      esac
      ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F ${functionOf(name)} ${name}
`
}

function zsh(name: string, commands: readonly Completed[]): string {
  // What _arguments and _describe take for their own.
  const told = (text: string) => text.replace(/[[\]:\\]/g, '\\$&')
  const values = (choices: readonly string[]) => (choices.length > 0 ? `(${choices.join(' ')})` : '_files')
  const cases = commands.map(({ name, options, choices }) => {
    const specs = options.flatMap(({ flags, says, takesValue, choices }) =>
      flags.map((flag) => `${flag}[${told(says)}]${takesValue ? `:value:${values(choices)}` : ''}`),
    )
    const all = [...specs, `*:argument:${values(choices)}`].map((spec) => `      ${quoted(spec)}`)
    return `    ${name}) _arguments \\\n${all.join(' \\\n')} ;;`
  })
  return `#compdef ${name}
# ${name} completion for zsh: source <(${name} completion zsh), after compinit
${functionOf(name)}() {
  local -a commands=(
${commands.map(({ name, says }) => `    ${quoted(`${name}:${told(says)}`)}`).join('\n')}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  # As if the command were the program.
  shift words
  ((CURRENT--))
  case $words[1] in
${cases.join('\n')}
  esac
}
compdef ${functionOf(name)} ${name}
`
}

function fish(name: string, commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name: command, says, options, choices }) => {
    const within = `complete -c ${name} -n ${quoted(`__fish_seen_subcommand_from ${command}`)}`
    return [
      `complete -c ${name} -n __fish_use_subcommand -f -a ${command} -d ${quoted(says)}`,
      ...(choices.length > 0 ? [`${within} -f -a ${quoted(choices.join(' '))}`] : []),
      ...options.map(({ flags, says, takesValue, choices }) => {
        const named = flags.map((flag) =>
          flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`,
        )
        const value = choices.length > 0 ? [`-x -a ${quoted(choices.join(' '))}`] : takesValue ? ['-r'] : []
        return [within, ...named, ...value, `-d ${quoted(says)}`].join(' ')
      }),
    ]
  })
  return `# ${name} completion for fish: ${name} completion fish | source\n${lines.join('\n')}\n`
}

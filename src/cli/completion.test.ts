import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { completions, type Shell } from './completion.ts'
import { program } from './program.ts'

const script = (shell: Shell) => completions[shell](program())

describe('completion in bash', () => {
  /** What bash offers for a command line whose last word is being written. */
  const offered = (...words: string[]) => {
    const asked = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}`
    const ask = `${script('bash')}\n${asked}; _message_board; printf '%s ' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['-c', ask], { encoding: 'utf8' })
    expect(stderr).toBe('')
    return stdout.trim()
  }
  it.each([
    [['message-board', 're'], 'report regrade'],
    [['message-board', 'run', '--se'], '--set --seeds'],
    [['message-board', 'run', '--device', ''], 'cpu wasm cuda webgpu auto'],
    [['message-board', 'eval', '--reads', 'r'], 'ring'],
    [['message-board', 'completion', ''], 'bash zsh fish'],
    [['message-board', 'selftest', '--d'], '--device'],
    // Files: the shell's own.
    [['message-board', 'run', ''], ''],
    [['message-board', 'run', '--out', ''], ''],
  ])('of %j offers %s', (words, found) => {
    expect(offered(...words)).toBe(found)
  })
})

describe('completion in zsh and fish', () => {
  it('knows every command, option and choice', () => {
    for (const command of program().commands) {
      expect(script('zsh')).toContain(`'${command.name()}:`)
      expect(script('fish')).toContain(`-n __fish_use_subcommand -f -a ${command.name()} -d '`)
    }
    expect(script('zsh')).toMatch(/^#compdef message-board\n/)
    expect(script('zsh')).toMatch(/^ {6}'--device\[where it computes\]:value:\(cpu wasm cuda webgpu auto\)'/m)
    expect(script('zsh')).toMatch(/^ {4}completion\) _arguments [^;]*'\*:argument:\(bash zsh fish\)' ;;$/m)
    expect(script('fish')).toContain(
      "complete -c message-board -n '__fish_seen_subcommand_from run' -l device -x -a 'cpu wasm cuda webgpu auto' -d '",
    )
    // A quote in what is said of an option ends no string.
    expect(script('fish')).toContain("the environment variable that holds the server'\\''s key")
  })
})

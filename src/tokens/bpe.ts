/**
 * Trains a small byte-level BPE tokenizer and describes it in Hugging Face's files, so that any Hugging Face tool
 * loads it. Pure functions; the same texts give the same tokenizer on every machine.
 *
 * Pre-tokenization is SmolLM2's: each digit stands alone, then GPT-2's split into words, numbers and punctuation,
 * each word with the space before it. Merges and ids follow Hugging Face's own trainer (the most frequent pair
 * first; among equals, the one with the smaller ids), so that the two can be held against each other.
 */

export interface Bpe {
  /** Special tokens first, then the 256 bytes in the order of their characters, then merges in order of rank. */
  vocab: string[]
  merges: [string, string][]
  specials: string[]
}

/** A file's name and the JSON value that it holds. */
export type JsonFiles = Record<'tokenizer.json' | 'tokenizer_config.json', unknown>

/** GPT-2's byte alphabet: printable Latin-1 bytes are their own characters, the others start at U+0100. */
const byteCharacters: readonly string[] = (() => {
  const printable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++))
})()

const gpt2Words = /'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu

/** Splits text into the words that merges never cross, each written in the byte alphabet. */
export function preTokenize(text: string): string[] {
  const encoder = new TextEncoder()
  return (text.match(/\p{Nd}|\P{Nd}+/gu) ?? [])
    .flatMap((part) => part.match(gpt2Words) ?? [])
    .map((word) => Array.from(encoder.encode(word), (byte) => byteCharacters[byte]).join(''))
}

/**
 * Learns merges from texts until the vocabulary has `vocabSize` entries or no pair occurs twice. Special tokens
 * must not occur in the texts: cut the texts at them.
 */
export function trainBpe(texts: Iterable<string>, vocabSize: number, specials: readonly string[]): Bpe {
  const counts = new Map<string, number>()
  for (const text of texts) {
    for (const word of preTokenize(text)) counts.set(word, (counts.get(word) ?? 0) + 1)
  }
  const vocab = [...specials, ...byteCharacters.toSorted()]
  const idOf = new Map(vocab.map((token, id) => [token, id]))
  const merges: [string, string][] = []
  const words = Array.from(counts, ([word, count]) => ({
    count,
    ids: Array.from(word, (character) => idOf.get(character)!),
  }))
  // Ids stay far below 2^16, so a pair packs into one number that orders by (left, right).
  const packed = (left: number, right: number) => left * 65536 + right
  while (vocab.length < vocabSize) {
    const pairs = new Map<number, number>()
    for (const { ids, count } of words) {
      for (let i = 1; i < ids.length; i++) {
        const pair = packed(ids[i - 1], ids[i])
        pairs.set(pair, (pairs.get(pair) ?? 0) + count)
      }
    }
    let best = -1
    let bestCount = 1
    for (const [pair, count] of pairs) {
      if (count > bestCount || (count === bestCount && pair < best)) [best, bestCount] = [pair, count]
    }
    if (best < 0) break
    const [left, right] = [Math.floor(best / 65536), best % 65536]
    const merged = vocab[left] + vocab[right]
    merges.push([vocab[left], vocab[right]])
    const id = vocab.push(merged) - 1
    for (const { ids } of words) {
      for (let i = 0; i + 1 < ids.length; i++) {
        if (ids[i] === left && ids[i + 1] === right) ids.splice(i, 2, id)
      }
    }
  }
  return { vocab, merges, specials: [...specials] }
}

/**
 * The two tokenizer files of a chat model: `tokenizer.json` and `tokenizer_config.json` with a ChatML template.
 * `endOfTurn` ends every message, and so a reply; `pad` fills batches in tools that need it.
 */
export function tokenizerFiles(
  bpe: Bpe,
  options: { startOfTurn: string; endOfTurn: string; pad: string; contextLength: number },
): JsonFiles {
  const { startOfTurn, endOfTurn, pad, contextLength } = options
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
  const chatTemplate =
    '{% for message in messages %}' +
    `{{ '${startOfTurn}' + message['role'] + '\\n' + message['content'] + '${endOfTurn}\\n' }}` +
    '{% endfor %}' +
    `{% if add_generation_prompt %}{{ '${startOfTurn}assistant\\n' }}{% endif %}`
  return {
    'tokenizer.json': {
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: bpe.specials.map((content, id) => ({ id, content, ...flags })),
      normalizer: null,
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Digits', individual_digits: true },
          { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
        ],
      },
      post_processor: null,
      decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: false,
        vocab: Object.fromEntries(bpe.vocab.map((token, id) => [token, id])),
        merges: bpe.merges.map(([left, right]) => `${left} ${right}`),
      },
    },
    'tokenizer_config.json': {
      tokenizer_class: 'PreTrainedTokenizerFast',
      model_max_length: contextLength,
      clean_up_tokenization_spaces: false,
      bos_token: null,
      eos_token: endOfTurn,
      pad_token: pad,
      unk_token: null,
      chat_template: chatTemplate,
      added_tokens_decoder: Object.fromEntries(
        bpe.specials.map((content, id) => [String(id), { content, ...flags }]),
      ),
    },
  }
}

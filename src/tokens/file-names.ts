/** The files of a checkpoint's folder that its tokenizer is made of, of which `tokenizer.json` must be there. */
export const tokenizerFiles = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
  'config.json',
  'generation_config.json',
] as const

// Text to token ids and back: byte-pair encoding, as Hugging Face's tokenizers library reads the
// models' tokenizer.json. Digits and # stand alone; then words, with the space before them.

const WORDS =
  /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\x85\p{L}\p{N}]+|[\s\x85]+(?![^\s\x85])|[\s\x85]+/gu;
const UNKNOWN = 0;
const BEGIN = 1;

// Return what byte-level encoding writes for each of the 256 bytes: itself where that is printable.
function byteLetters() {
  const letters = [];
  let others = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    letters.push(String.fromCharCode(printable ? byte : others++));
  }
  return letters;
}

export class Tokenizer {
  // `told` is of the page: the tokens in the order of their ids, and the merges, best first.
  constructor(told) {
    this.tokens = told.tokens;
    this.ids = new Map(told.tokens.map((token, id) => [token, id]));
    this.ranks = new Map(told.merges.map((pair, rank) => [pair, rank]));
    this.letters = byteLetters();
    this.special = new Set(told.special);
    this.bytes = new Map(this.letters.map((letter, byte) => [letter, byte]));
  }

  // Return the ids of a text, which begins with <s>: its own, or one that is put before it.
  encode(text) {
    const ids = text.startsWith(this.tokens[BEGIN]) ? [] : [BEGIN];
    for (const part of text.split(/(<unk>|<s>|<\/s>)/)) {
      if (this.special.has(this.ids.get(part))) ids.push(this.ids.get(part));
      else for (const piece of part.split(/([0-9#])/)) this.#encodeWords(piece, ids);
    }
    return ids;
  }

  #encodeWords(piece, ids) {
    for (const [word] of piece.matchAll(WORDS)) {
      const bytes = new TextEncoder().encode(word);
      ids.push(...this.#merge(Array.from(bytes, byte => this.letters[byte])));
    }
  }

  // Join the pair that was merged first in training, the leftmost of equals, while there is one.
  #merge(parts) {
    // Null is no part of a pair.
    parts = parts.map(letter => (this.ids.has(letter) ? letter : null));
    for (;;) {
      let best = Infinity,
        at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const both = parts[i] && parts[i + 1];
        const rank = both ? this.ranks.get(`${parts[i]} ${parts[i + 1]}`) : undefined;
        if (rank < best) [best, at] = [rank, i];
      }
      if (at < 0) break;
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
    return parts.map(part => (part === null ? UNKNOWN : this.ids.get(part)));
  }

  // Return the text of tokens; special ones are no part of it.
  decode(ids) {
    const bytes = [];
    for (const id of ids) {
      if (this.special.has(id)) continue;
      for (const letter of this.tokens[id]) bytes.push(this.bytes.get(letter));
    }
    return new TextDecoder().decode(new Uint8Array(bytes));
  }
}

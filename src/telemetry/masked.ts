/** Masks tokens in text that is logged, kept or printed. */

/** Replaces a token. */
export const MASK = '***';

/** Whether a text is a token that the service knows. */
export type IsToken = (text: string) => boolean;

/** Masks each token of the form that `assetlog token` prints: `asl_` and 256 random bits in base64url. */
export function maskTokens(text: string): string {
  return text.replaceAll(TOKEN_FORM, MASK);
}

/**
 * Finds the tokens in a path that `withoutTokens` does not recognise: percent-encoded tokens, and known tokens that span up to
 * `RUN_PARTS_MAX` parts, since a token can have slashes.
 * @param path raw; only parts that start within the first `charactersMax` are searched
 * @returns the texts to mask, raw and decoded
 */
export function findTokens(path: string, isToken: IsToken, charactersMax: number): string[] {
  const found: string[] = [];
  const parts = path.split('/', charactersMax);
  for (let at = 0, position = 0; at < parts.length && position < charactersMax; at += 1) {
    position += parts[at]!.length + 1;
    for (let end = at + 1; end <= Math.min(at + RUN_PARTS_MAX, parts.length); end += 1) {
      const text = parts.slice(at, end).join('/');
      const isPart = end === at + 1;
      if (text.length < (isPart ? TOKEN_CHARACTERS_MIN : SLASHED_CHARACTERS_MIN)) continue;
      const decoded = decode(text);
      const isEncoded = decoded !== text && (isToken(decoded) || (isPart && maskTokens(decoded) !== decoded));
      if (!isEncoded && !isToken(text)) continue;
      found.push(text, decoded);
      break;
    }
  }
  return found;
}

/** Masks the texts of `tokensIn`, and each token of `assetlog token`. */
export function masked(text: string, tokens: readonly string[]): string {
  return maskTokens(tokens.reduce((left, token) => left.replaceAll(token, MASK), text));
}

/**
 * Masks one token in a text that repeats it: the whole token, or at least its first `PREFIX_CHARACTERS`, raw, percent-encoded or
 * escaped for JSON. A token of less than `TOKEN_CHARACTERS_MIN` is no secret, and might be any word of the text.
 */
export function maskToken(text: string, token: string): string {
  if (token.length < TOKEN_CHARACTERS_MIN) return text;
  let result = '';
  let kept = 0;
  for (let at = 0; at < text.length; ) {
    const end = endOfToken(text, at, token);
    if (end === undefined) {
      at += 1;
      continue;
    }
    result += `${text.slice(kept, at)}${MASK}`;
    kept = end;
    at = end;
  }
  return result + text.slice(kept);
}

/** Like `withoutToken`, but a text with a shorter secret is masked as a whole: the rest would show where the secret was. */
export function withoutSecret(text: string, secret = ''): string {
  const isShort = secret !== '' && secret.length < TOKEN_CHARACTERS_MIN;
  return isShort && text.includes(secret) ? MASK : maskToken(text, secret);
}

/** @returns the index after the token that starts at `at`; undefined if there is none */
function endOfToken(text: string, at: number, token: string): number | undefined {
  let end = at;
  let matched = 0;
  for (; matched < token.length; matched += 1) {
    const length = lengthOf(text, end, token.charCodeAt(matched));
    if (length === 0) break;
    end += length;
  }
  return matched >= Math.min(token.length, PREFIX_CHARACTERS) ? end : undefined;
}

/** @returns how many characters at `at` encode the character `code`; 0 if they encode another character */
function lengthOf(text: string, at: number, code: number): number {
  const first = text.charCodeAt(at);
  if (first === code) return 1;
  if (first === PERCENT) return Number.parseInt(text.slice(at + 1, at + 3), 16) === code ? 3 : 0;
  if (first !== BACKSLASH) return 0;
  if (text[at + 1] === 'u') return Number.parseInt(text.slice(at + 2, at + 6), 16) === code ? 6 : 0;
  return ESCAPED.has(code) && text.charCodeAt(at + 1) === code ? 2 : 0;
}

/** @returns the text itself if its percent-encoding is invalid */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const TOKEN_FORM = /asl_[\w-]{43}/g;
/** A shorter text does not count as a token. */
const TOKEN_CHARACTERS_MIN = 8;
/** 24 random bytes in base64, which can have slashes. Each text that is tried costs a hash. */
const SLASHED_CHARACTERS_MIN = 32;
const RUN_PARTS_MAX = 4;
/** A service might cut a token that it repeats. */
const PREFIX_CHARACTERS = 16;
const PERCENT = 0x25;
const BACKSLASH = 0x5c;
/** Characters that JSON escapes with one backslash: the quote, the backslash itself, the slash. */
const ESCAPED: ReadonlySet<number> = new Set([0x22, BACKSLASH, 0x2f]);

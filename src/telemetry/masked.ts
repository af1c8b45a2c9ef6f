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
 * Finds the tokens in a path that `maskTokens` does not recognise: percent-encoded tokens, and known tokens that span up to
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

/** Masks the texts of `findTokens`, and each token of `assetlog token`. */
export function masked(text: string, tokens: readonly string[]): string {
  return maskTokens(tokens.reduce((left, token) => left.replaceAll(token, MASK), text));
}

/** Like `masked`, for the reason of a refusal, which can quote a token: a client might send one as the name of a parameter. */
export function maskedReason(text: string, tokens: readonly string[], isToken: IsToken): string {
  const mask = (quoted: string) => (isToken(unquoted(quoted)) ? `"${MASK}"` : quoted);
  return masked(text.replace(QUOTED, mask), tokens);
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text);
  } catch {
    return text.slice(1, -1);
  }
}

/**
 * Masks one token in a text that repeats it: the whole token, or at least its first `PREFIX_CHARACTERS`, raw, percent-encoded or
 * escaped for JSON. A token of less than `TOKEN_CHARACTERS_MIN` is not a secret, and might be any word of the text.
 */
export function maskToken(text: string, token: string): string {
  return token.length < TOKEN_CHARACTERS_MIN ? text : replaceToken(text, token);
}

function replaceToken(text: string, token: string): string {
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

/**
 * Like `maskToken`, but masks the whole text if the secret is shorter, since the rest would show where the secret was.
 */
export function withoutSecret(text: string, secret = ''): string {
  const isShort = secret !== '' && secret.length < TOKEN_CHARACTERS_MIN;
  return isShort && replaceToken(text, secret) !== text ? MASK : maskToken(text, secret);
}

/** @returns the index after the token that starts at `at`; undefined if there is none */
function endOfToken(text: string, at: number, token: string): number | undefined {
  let ends = [at];
  let matched = 0;
  for (const character of token) {
    const next = new Set(ends.flatMap((end) => lengthsOf(text, end, character).map((length) => end + length)));
    if (next.size === 0) break;
    ends = [...next];
    matched += character.length;
  }
  return matched >= Math.min(token.length, PREFIX_CHARACTERS) ? Math.max(...ends) : undefined;
}

/**
 * @returns how many characters of the text stand for the character: several numbers if it also starts its own encoding, like `%`
 * starts `%25`
 */
function lengthsOf(text: string, at: number, character: string): number[] {
  const first = text[at];
  const forms = [character];
  if (character === ' ' && first === '+') forms.push('+');
  if (first === '%') forms.push(percentEncoded(character));
  if (first === '\\') forms.push(unicodeEscaped(character), ...(ESCAPED.has(character) ? [`\\${character}`] : []));
  return forms.flatMap((form, index) => {
    const found = text.slice(at, at + form.length);
    return (index === 0 ? found : found.toLowerCase()) === form ? [form.length] : [];
  });
}

function percentEncoded(character: string): string {
  return [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}

function unicodeEscaped(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** @returns the decoded text, or the text itself if its percent-encoding is invalid */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const TOKEN_FORM = /asl_[\w-]{43}/g;
/** Shorter texts do not count as tokens. */
const TOKEN_CHARACTERS_MIN = 8;
/** 24 random bytes in base64, which can contain slashes. Each text that is tried costs a hash. */
const SLASHED_CHARACTERS_MIN = 32;
const RUN_PARTS_MAX = 4;
/** A service might shorten a token that it repeats. */
const PREFIX_CHARACTERS = 16;
/** Characters that JSON escapes with one backslash. */
const ESCAPED: ReadonlySet<string> = new Set(['"', '\\', '/']);
/** A text in the form of a JSON string. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

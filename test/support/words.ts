/** Which words the rules of `.github/CONTRIBUTING.md` exclude, as far as a pattern can find them. */

export type WordRule = readonly [rule: string, pattern: RegExp];

/** In a comment, a message, the title of a test or a page. */
export const foreign: readonly WordRule[] = [
  ['R1: name the noun', /\bof which\b|\bwhat of\b/i],
  ['R2: name the form', /\bas [^.;:,()]{1,40} (?:has|have) (?:it|them)\b/i],
  ['R5: nothing trails', /\bthat there (?:is|are)\b/i],
  ['R8: cannot', /\bcan not\b/i],
  ['R9: otherwise', /(?<!\b(?:\w+thing|\w+where|\w*one|\w+body|what|who|where|all)) else\b|(?:^|[.:;] )Else\b/i],
  ['R10: a sentence of its own', /^As `[^`]*`/],
  ['no word of the field', /\b(?:whoever|everybody|somebody|goes on|(?:is|are|was|were) told)\b/i],
];

/** In the pages for users: each thing has one word, which the front page of the handbook defines. */
export const retired: readonly WordRule[] = [
  ['say device', /\bedge devices?\b/i],
  ['say forwarding to NAME', /\bsenders?\b/i],
  ['say hub or destination', /\bupstreams?\b/i],
  ['say plain destination', /\bplain\b(?! (?:destinations?|text|HTTP|TCP|requests?|URL))/i],
  ['say source, or nothing', /\bwatermarks?\b|\bsidecars?\b/i],
  ['say dead letter', /(?<!\bdead )\bletters?\b(?!,| of | and digits| or a digit)/i],
  ['say given up', /\bskipped\b/i],
  ['say Dagster', /\bthe reference\b/i],
  ['say with or without a deployments file', /\b(?:local|hosted) mode\b/i],
  ['say what it is', /\bstand-ins?\b/i],
  ['say recorded', /\bstable storage\b|\bdurabl[ey]\b/i],
  ['say test mode', /\bfor tests\b/i],
  ['say segment', /\b(?:journal|closed) files?\b/i],
  ['say data folder', /\bfolder of all deployments\b/i],
  ['the subject is a noun', /(?:^|[.:;] )What [^?.]*\./],
  ['start with the subject', /(?:^|[.;] )(?:Of|That of) (?!course)/],
  ['say again, or new', /\banew\b/i],
  ['say while, with or in addition to', /\bbeside\b/i],
  ['say while, or until then', /\bmeanwhile\b/i],
  ['say compressed', /\b(?:un)?packed\b/i],
  ['say fix', /(?<!-)\bmend(?:s|ed|ing)?\b/i],
  ['say gets, or is called', /\bhears?\b/i],
  ['say uses, or is ordered by', /\bgo(?:es)? by\b/i],
];

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readJson } from '../../src/event/json.ts';
import { JsonBytes, jsonBytesOf } from '../../src/event/json-bytes.ts';
import { JsonError } from '../../src/event/json-mistakes.ts';
import { type Members, readMembers, readObjects } from '../../src/event/members.ts';
import { rounds } from '../support/long.ts';

const DEPTH = 128;
const LIMITS = { jsonDepthMax: DEPTH, bodyMembersMax: 10 };

function refusal(text: string, depth = DEPTH): string {
  const outcome = outcomeOf(() => readJson(text, depth));
  return typeof outcome === 'string' ? outcome : 'accepted';
}

/** The text of each member, by its name. */
function textsOf(members: Members | undefined): Record<string, string> | undefined {
  return members && Object.fromEntries(members.names().map((name) => [name, members.get(name)!.text]));
}

test('of members with the same name the last value counts, whether the name is known or not', () => {
  const sent =
    '{"__proto__": 1, "a": [ 1 ], "a": "x", "\\u0061b": null, "": 2, "type": 3, "typ": 4, "\\u0074ags": 5, "tags": 6}';
  const texts = { ['__proto__']: '1', a: '"x"', ab: 'null', '': '2', type: '3', typ: '4', tags: '6' };
  assert.deepEqual(textsOf(readMembers(jsonBytesOf(sent, LIMITS))), texts);
});

test('an array of objects is read as the members of each element, and any other element as undefined', () => {
  const objects = readObjects(jsonBytesOf(' [ {"a": [1, {"b": 2}], "a": 1.0} , 2, [{"c": 3}], {} ] ', LIMITS), 10);
  assert.deepEqual(objects?.map(textsOf), [{ a: '1.0' }, undefined, undefined, {}]);
  assert.deepEqual(readObjects(jsonBytesOf('[]', LIMITS), 10), []);
  for (const text of ['{}', '"a"', '1', 'null']) assert.equal(readObjects(jsonBytesOf(text, LIMITS), 10), undefined);
});

test('the elements of an array, their members and their depth have limits', () => {
  const problem = (text: string, jsonDepthMax: number, bodyMembersMax: number, elementsMax: number) => {
    assert.throws(
      () => readObjects(jsonBytesOf(text, { jsonDepthMax, bodyMembersMax }), elementsMax),
      (error: JsonError) => {
        found = `${error.line}:${error.column} ${error.message}`;
        return error instanceof JsonError;
      },
    );
    return found;
  };
  let found = '';
  assert.equal(problem('[{},{},{}]', DEPTH, 1, 2), '1:8 there are more than 2 elements');
  assert.equal(problem('[{"a":1},{"a":1,"b":2}]', DEPTH, 1, 2), '1:17 there are more than 1 members');
  assert.equal(problem('[{"a":[]}]', 1, 1, 2), '1:7 it nests deeper than 2 levels');
  assert.equal(problem('[{"a":1},]', DEPTH, 1, 2), '1:9 trailing comma before ]; JSON allows none, remove it');
  assert.equal(readObjects(jsonBytesOf('[{"a":[]}]', { jsonDepthMax: 2, bodyMembersMax: 1 }), 2)?.length, 1);
});

test('depth is counted from the outermost value', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(refusal(nested(DEPTH)), 'accepted');
  assert.equal(refusal(nested(DEPTH + 1)), '1:129 it nests deeper than 128 levels');
  assert.equal(refusal('{"a":{"b":[1]}}', 2), '1:11 it nests deeper than 2 levels');
});

test('an error has line and column, and names common mistakes', () => {
  const table: readonly (readonly [string, string])[] = [
    ['{"a":1,}', '1:7 trailing comma before }; JSON allows none, remove it'],
    ['{"a":[1,2,\n]}', '1:10 trailing comma before ]; JSON allows none, remove it'],
    ['{\n  "a": 1,\n  "é": \'b\'\n}', '3:8 single quotes; JSON strings are written in double quotes'],
    ["{'a':1}", '1:2 single quotes; JSON strings are written in double quotes'],
    ['{"a":True}', '1:6 True is not a JSON value: JSON writes true in lower case'],
    ['{"a":None}', '1:6 None is not a JSON value: JSON writes null for "no value"'],
    ['{"a":NaN}', '1:6 NaN is not a JSON value: JSON has no NaN; send null or a string'],
    ['[-Infinity]', '1:2 Infinity is not a JSON value: JSON has no Infinity; send null or a string'],
    ['{"a":"x\ny"}', '1:8 unescaped control character U+000A in a string; write it as \\n'],
    ['["\u0000"]', '1:3 unescaped control character U+0000 in a string; write it as \\u0000'],
    ['{"a":1 "b":2}', '1:8 expected a comma or } in an object, found "'],
    ['[1 2]', '1:4 expected a comma or ] in an array, found 2'],
    ['{"a" 1}', '1:6 a colon is missing after a member name'],
    ['{a:1}', '1:2 the member name a needs double quotes'],
    ['{,}', '1:2 expected a member name in double quotes, found ,'],
    ['{"a":1,,"b":2}', '1:8 two commas in a row; remove one'],
    ['{"a":\u201cb\u201d}', '1:6 typographic quote \u201c; JSON strings are written in straight double quotes'],
    ['// x\n{}', '1:1 JSON has no comments; remove it'],
    ['{} 1', '1:4 there is more text after the value; send one value'],
    [
      '{}{}',
      '1:3 another object starts; send one, or each on its own line (curl -d joins lines, --data-binary does not)',
    ],
    ['{}}', '1:3 there is a } too many after the value'],
    ['hello', '1:1 hello is not a JSON value; a string needs double quotes'],
    ['truee', '1:1 truee is not a JSON value; a string needs double quotes'],
    ['', '1:1 the text ends where a value should be'],
    [' \n ', '2:2 the text ends where a value should be'],
    ['{', '1:2 the text ends inside an object that started at line 1, column 1'],
    ['{"a":1,', '1:8 the text ends inside an object that started at line 1, column 1'],
    ['{"a"', '1:5 the text ends inside an object'],
    ['{"a":1', '1:7 the text ends inside an object'],
    ['\n[', '2:2 the text ends inside an array that started at line 2, column 1'],
    ['[1', '1:3 the text ends inside an array'],
    ['["ab', '1:2 this string is never closed; its closing double quote is missing'],
    ['["a\\tb', '1:2 this string is never closed; its closing double quote is missing'],
    ['"a\\', '1:3 the text ends inside a string'],
    ['"\\x41"', '1:2 JSON knows no escape \\x in a string; a backslash itself is \\\\'],
    ['"\\u12g4"', '1:2 \\u needs exactly four hexadecimal digits'],
    ['01', '1:1 a number cannot start with 0; remove the zero or send a string'],
    ['+1', '1:1 a number cannot start with +; remove it'],
    ['.5', '1:1 a number cannot start with a decimal point; write 0 before it'],
    ['1.', '1:2 a digit is missing after the decimal point'],
    ['1e', '1:2 a digit is missing in the exponent'],
    ['1a', '1:2 unexpected a after a number'],
    ['-', '1:1 expected a value, found -'],
    ['\u0001', '1:1 expected a value, found U+0001'],
    ['["😀" x]', '1:6 expected a comma or ] in an array, found x'],
  ];
  for (const [text, expected] of table) assert.equal(refusal(text), expected, JSON.stringify(text));
});

/** JSON text with white space, escapes and numbers of every form, which a generator of values alone would never write. */
const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/);
const escapedString = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 4 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\u0041', '\\uD800', '\\ud83d\\ude00'),
    ),
    { maxLength: 4 },
  )
  .map((parts) => `"${parts.join('')}"`);
const numberText = fc.stringMatching(/^-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?$/);
const { tree: jsonText } = fc.letrec<{ tree: string }>((tie) => ({
  tree: fc
    .tuple(
      space,
      fc.oneof(
        { maxDepth: 5, depthIdentifier: 'json' },
        fc.constantFrom('null', 'true', 'false'),
        numberText,
        escapedString,
        fc.array(tie('tree'), { maxLength: 4, depthIdentifier: 'json' }).map((items) => `[${items.join(',')}]`),
        fc
          .array(fc.tuple(space, escapedString, space, tie('tree')), { maxLength: 4, depthIdentifier: 'json' })
          .map((members) => `{${members.map(([a, name, b, value]) => `${a}${name}${b}:${value}`).join(',')}}`),
      ),
      space,
    )
    .map((parts) => parts.join('')),
}));

/** A text with a few of its characters cut, doubled or replaced: most are no longer JSON. */
const mutated = fc
  .tuple(
    jsonText,
    fc.array(fc.tuple(fc.nat(), fc.constantFrom('', ...`,"}]{[:01.e-\\u \n't\u0000\ufeff\u00a0/+`)), { maxLength: 3 }),
  )
  .map(([text, edits]) => {
    let edited = text;
    for (const [at, replacement] of edits) {
      const offset = at % (edited.length + 1);
      edited = edited.slice(0, offset) + replacement + edited.slice(offset + (at % 3));
    }
    return edited.toWellFormed(); // like a text decoded from UTF-8
  });

test('the parser accepts and refuses the same texts as JSON.parse, and reads the same values', () => {
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(fc.oneof(jsonText, mutated), (text) => {
      let parsed: unknown;
      let valid = true;
      try {
        parsed = JSON.parse(text);
      } catch {
        valid = false;
      }
      const answer = refusal(text);
      assert.equal(answer === 'accepted', valid, `${JSON.stringify(text)}: ${answer}`);
      if (valid) {
        accepted += 1;
        assert.deepEqual(JSON.parse(readJson(text, DEPTH).text), parsed);
      } else {
        refused += 1;
        assert.match(answer, /^\d+:\d+ [^\n]+$/);
      }
    }),
    { numRuns: rounds({ long: 20_000, short: 4_000 }) },
  );
  assert.ok(accepted > 1_000 && refused > 1_000, `${accepted} accepted, ${refused} refused: the generator is lopsided`);
});

test('each of several lines is read like a separate text', () => {
  let objects = 0;
  fc.assert(
    fc.property(fc.array(fc.oneof(jsonText, mutated), { maxLength: 4 }), (texts) => {
      const lines = texts.join('\n').split('\n');
      const json = new JsonBytes(Buffer.from(lines.join('\n')), LIMITS, true);
      let start = 0;
      for (const line of lines) {
        const end = start + Buffer.byteLength(line);
        const read = outcomeOf(() => textsOf(readMembers(json, start, end)));
        assert.deepEqual(
          read,
          outcomeOf(() => textsOf(readMembers(jsonBytesOf(line, LIMITS)))),
        );
        if (typeof read === 'object') {
          objects += 1;
          const values = Object.entries(read).map(([name, text]) => [name, JSON.parse(text)]);
          assert.deepEqual(Object.fromEntries(values), JSON.parse(line));
        }
        start = end + 1;
      }
    }),
    { numRuns: rounds({ long: 5_000, short: 1_000 }) },
  );
  assert.ok(objects > 50, `${objects} objects: the generator is lopsided`);
});

/** @returns the value, or the mistake */
function outcomeOf<Value>(read: () => Value): Value | string {
  try {
    return read();
  } catch (error) {
    if (error instanceof JsonError) return `${error.line}:${error.column} ${error.message}`;
    throw error;
  }
}

test('read JSON is compact, so that reading it again changes nothing', () => {
  fc.assert(
    fc.property(jsonText, (text) => {
      const once = readJson(text, DEPTH);
      assert.equal(readJson(once.text, DEPTH).text, once.text);
      assert.equal(once.text.replace(/"(?:[^"\\]|\\.)*"/g, '').search(/\s/), -1);
    }),
    { numRuns: rounds({ long: 3_000, short: 600 }) },
  );
});

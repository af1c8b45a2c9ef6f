/** JSON numbers as text. They are compared by all their digits, which a double cannot represent. */

/** @returns a negative number if `a` is less than `b`, 0 if both are equal, like `1.0` and `1e0` */
export function compareNumbers(a: string, b: string): number {
  const difference = Number(a) - Number(b);
  return difference || compareDigits(decimalOf(a), decimalOf(b)); // the difference is 0, or NaN if both are too large for a double
}

interface Decimal {
  /** -1 or 1; 1 for 0. */
  readonly sign: number;
  /** The digits without zeros at either end; empty for 0. */
  readonly digits: string;
  /** The power of ten of the first digit, plus 1. */
  readonly order: number;
}

function decimalOf(text: string): Decimal {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  const all = whole + fraction;
  const digits = all.replace(/^0+/, '');
  const order = whole.length - (all.length - digits.length) + Number(exponent);
  return { sign: sign !== '' && digits !== '' ? -1 : 1, digits: digits.replace(/0+$/, ''), order };
}

function compareDigits(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign;
  if (a.digits === '' || b.digits === '') return a.sign * (a.digits.length - b.digits.length);
  if (a.order !== b.order) return a.sign * (a.order - b.order);
  return a.digits === b.digits ? 0 : a.sign * (a.digits < b.digits ? -1 : 1);
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

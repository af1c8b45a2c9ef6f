/** The requests of the page to its service. */

/** The service refused a request. */
export class RefusedError extends Error {
  readonly status: number;
  /** The requested wait before a retry, in milliseconds; undefined if there is none. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, error: string, retryAfterMs: number | undefined) {
    super(error);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The members of the JSON at `/` that the page uses. */
interface Links {
  readonly token_header?: string;
  readonly below_deployment?: boolean;
}

/** The key in `sessionStorage`, which keeps the token until the tab is closed. */
const STORED = 'assetlog';

/** The service of the page. In hosted mode the user enters the deployment and a token. */
export class Service {
  /** Hosted mode: the header with the token, such as `Service-Cloud-Api-Token`. Empty in local mode. */
  tokenHeader = '';
  /** Only in hosted mode. */
  deployment = '';
  #token = '';
  #isBelowName = false;

  get isHosted(): boolean {
    return this.tokenHeader !== '';
  }

  /** Whether requests can be sent. */
  get hasAccess(): boolean {
    return !this.isHosted || this.#token !== '';
  }

  /** Reads the mode and the paths of the service. @throws RefusedError, or TypeError if it does not answer */
  async discover(signal: AbortSignal): Promise<void> {
    const reply = await checked(await fetch('./', { headers: { Accept: 'application/json' }, signal }));
    const links: Links = await reply.json();
    this.tokenHeader = links.token_header ?? '';
    this.#isBelowName = links.below_deployment === true;
    if (!this.isHosted || this.deployment !== '') return;
    const [name, token] = JSON.parse(sessionStorage.getItem(STORED) ?? '["",""]') as [string, string];
    this.deployment = this.#isBelowName ? ownName() : name;
    if (this.deployment === name) this.#token = token;
  }

  /** @returns the problem of the name or the token; undefined if there is none */
  signIn(deployment: string, token: string): string | undefined {
    if (!/^[A-Za-z0-9][\w-]*$/.test(deployment)) return 'The name of a deployment has only letters, digits, - and _.';
    if (!/^[\x21-\x7e]+$/.test(token)) return 'A token has only ASCII characters, and no spaces.';
    this.deployment = deployment;
    this.#token = token;
    sessionStorage.setItem(STORED, JSON.stringify([deployment, token]));
    return undefined;
  }

  signOut(): void {
    this.#token = '';
    sessionStorage.removeItem(STORED);
  }

  /** @param path below the deployment: `events?last=1` @throws RefusedError, or TypeError if the service does not answer */
  async ask(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Response> {
    const token = this.isHosted ? { [this.tokenHeader]: this.#token } : {};
    return checked(await fetch(this.#base() + path, { headers: { ...headers, ...token }, signal, cache: 'no-store' }));
  }

  /**
   * @returns a document of a local service: its `metrics`; empty in hosted mode @throws RefusedError, or TypeError if the service does
   * not answer
   */
  async text(path: string, signal: AbortSignal, method = 'GET'): Promise<string> {
    return this.isHosted ? '' : (await checked(await fetch(`./${path}`, { method, signal, cache: 'no-store' }))).text();
  }

  /** @returns the base URL of reports: `http://127.0.0.1:3000/prod` */
  reportUrl(): string {
    return new URL(this.#base(), location.href).href.replace(/\/$/, '');
  }

  #base(): string {
    if (!this.isHosted || (this.#isBelowName && this.deployment === ownName())) return './';
    return `./${this.#isBelowName ? '../' : ''}${this.deployment}/`;
  }
}

/** @returns the last component of the page's path: `prod` at `/some/path/prod/` */
function ownName(): string {
  return location.pathname.split('/').at(-2) ?? '';
}

/** @throws RefusedError */
async function checked(reply: Response): Promise<Response> {
  if (reply.ok) return reply;
  const text = await reply.text();
  const retryAfter = Number(reply.headers.get('Retry-After') ?? Number.NaN);
  throw new RefusedError(
    reply.status,
    errorIn(text) ?? `status ${reply.status}`,
    retryAfter >= 0 ? retryAfter * 1_000 : undefined,
  );
}

/** @returns undefined if the text is not JSON of the service, for example in the reply of a proxy */
function errorIn(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text);
    return typeof error === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}

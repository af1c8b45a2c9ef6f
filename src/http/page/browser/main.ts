/** The page: connects the views with the address, the keys and the connection. */

import { otherSpelling } from '../../../event/asset-key.ts';
import { visible } from '../../../event/visible.ts';
import { type Address, addressOf, filterNames, hashOf, readAddress, type ViewName, views } from './address.ts';
import { AssetPane } from './asset-pane.ts';
import { assetsView } from './assets.ts';
import { Connection, type ConnectionState } from './connection.ts';
import { button, byId, copyButton, element } from './dom.ts';
import { EventsView } from './events.ts';
import { watchForwarding } from './forwarding.ts';
import { List } from './list.ts';
import { refusalsView } from './refusals.ts';
import { Service } from './service.ts';
import { sourceNames, sourcesView } from './sources.ts';
import { watchTests } from './tests.ts';
import { type DetailParts, updateAges, type View } from './view.ts';

/** The keys of the page, for its dialog. */
const keys: readonly (readonly [key: string, does: string])[] = [
  ['1 2 3 4', 'events, assets, refusals, sources'],
  ['/', 'search'],
  ['↓ ↑ or j k', 'next and previous row'],
  ['Enter', 'show the whole row'],
  ['Esc', 'close the row'],
  ['Home End PgUp PgDn', 'jump in the list'],
  ['← → Enter', 'in a plot: previous and next value, its event'],
  ['?', 'these keys'],
];

const NOUNS: Readonly<Record<ViewName, string>> = {
  events: 'event',
  assets: 'asset',
  refusals: 'refused request',
  sources: 'source',
};

const service = new Service();
const connection = new Connection(showState);
const list = new List(() => view().more());
const open = (item: unknown, how: 'click' | 'key') => {
  const id = view().rows.idOf(item);
  go({ ...address, open: id }, address.open !== '');
  if (how === 'key') byId('detail').focus();
};
const shared = { service, open, onChange: () => changed('other', 0) };
const all = {
  events: new EventsView({
    service,
    open,
    onChange: (addedBefore) => changed('events', addedBefore),
    onDetail: showDetail,
    wantsMore: () => address.view === 'events' && list.isAtBottom,
    onNotice: notify,
    onRetry: (ms) => {
      connection.retryMs = ms;
    },
  }),
  assets: assetsView({ ...shared, detail: new AssetPane(service) }),
  refusals: refusalsView(shared),
  sources: sourcesView(shared),
};
let address = readAddress(location.hash);
let isDiscovered = false; // whether `service.discover` has succeeded
let newRows = 0;
let missing = ''; // why the service currently does not answer

function view(): View {
  return all[address.view];
}

/** Shows another address. @param replacesHistory whether the previous address is removed from the history */
function go(to: Address, replacesHistory: boolean): void {
  const hash = hashOf(to);
  if (replacesHistory) history.replaceState(null, '', hash);
  else history.pushState(null, '', hash);
  show(to);
}

/** Shows an address. @param isForced whether to rebuild the view even if it stays the same */
function show(to: Address, isForced = false): void {
  const isOtherView = isForced || to.view !== address.view;
  address = to;
  const isOtherQuery = view().filter(to);
  if (isOtherView || isOtherQuery) notify('');
  if (isOtherView) {
    document.body.dataset['view'] = to.view;
    for (const link of document.querySelectorAll('nav a')) {
      if (link.getAttribute('href') === `#${to.view}`) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    byId('columns').replaceChildren(
      ...Object.entries(view().columns).map(([kind, title]) => element('span', { class: kind }, title)),
    );
    byId('list').setAttribute('aria-label', view().label);
    list.reset();
  }
  fillFilters();
  list.show(view().rows);
  showRest();
  if (isOtherView || isOtherQuery) connect();
}

function connect(): void {
  if (document.hidden) return;
  const { attempt } = view();
  connection.start(async (signal, live) => {
    if (!isDiscovered) {
      await service.discover(signal);
      isDiscovered = true;
    }
    showAccess('');
    if (!service.hasAccess) return new Promise((resolve) => signal.addEventListener('abort', () => resolve()));
    let isLive = false;
    await attempt(signal, () => {
      live();
      if (isLive) return;
      isLive = true; // set only now: a service counts requests with a wrong token, so there should be only one
      watchForwarding(service, signal, byId('forwarding'));
      watchTests(service, signal, byId('tests'));
      void sourceNames(service, signal).then((names) => signal.aborted || showSources(names));
    });
  });
}

/** Shows the view, the column and the filter of the sources of a hub. */
function showSources(names: EventsView['names']): void {
  const before = [...all.events.names].join();
  all.events.names = names;
  byId('sources').hidden = names.size === 0;
  document.body.classList.toggle('hub', names.size > 0);
  if ([...names].join() !== before && address.view === 'events') list.reset();
}

function changed(of: ViewName | 'other', addedBefore: number): void {
  if ((of === 'events') !== (address.view === 'events')) return;
  if (!list.isAtTop) newRows += addedBefore;
  list.show(view().rows, addedBefore);
  showRest();
}

/** Updates everything except the rows. */
function showRest(): void {
  if (list.isAtTop) newRows = 0;
  byId('count').firstElementChild?.replaceChildren(view().summary());
  const newer = byId('newer');
  newer.hidden = newRows === 0;
  newer.textContent = `${newRows} new ↑`;
  const { isEmpty, searching, rows } = view();
  const isMissing = isEmpty || (missing !== '' && rows.count === 0);
  const search = byId('search');
  search.hidden = searching === undefined;
  search.textContent = searching === true ? 'Stop' : 'Continue';
  byId('listing').hidden = isMissing;
  const nothing = byId('nothing');
  nothing.hidden = !isMissing;
  if (isMissing) nothing.replaceChildren(...(isEmpty ? emptyContent() : [element('h2', {}, missing)]));
  showDetail();
}

function emptyContent(): Node[] {
  if (filterNames.some((name) => address[name] !== '')) {
    const clear = () => go(addressOf(address.view), false);
    const isOnlyKey = filterNames.every((name) => name === 'key_prefix' || address[name] === '');
    const other = isOnlyKey ? otherSpelling(address.key_prefix) : undefined;
    const respell = () => go({ ...address, key_prefix: other ?? '' }, false);
    return [
      element('h2', {}, `No ${NOUNS[address.view]} matches`),
      button('Clear the filters', clear),
      ...(other === undefined ? [] : [button(`Key begins with ${visible(other)}`, respell)]),
    ];
  }
  if (address.view === 'refusals') return [element('h2', {}, 'No request was refused')];
  if (address.view === 'sources') return [element('h2', {}, 'No journal forwards to this service')];
  return firstReport();
}

/** @returns a command to copy that sends a first report to this service */
function firstReport(): Node[] {
  const token = service.isHosted ? ` \\\n  -H '${service.tokenHeader.replaceAll("'", "'\\''")}: TOKEN'` : '';
  const command = `curl '${service.reportUrl()}/report_asset_materialization/'${token} \\
  -H 'Content-Type: application/json' \\
  -d '{"asset_key": ["warehouse", "orders"], "metadata": {"rows": 1200}}'`;
  const shown = element('pre', { tabindex: '0', 'aria-label': 'Command' }, command);
  return [
    element('h2', {}, 'No events yet'),
    element('p', {}, 'Send a first report; it appears here immediately:'),
    shown,
    copyButton(command, shown),
  ];
}

/** The details that are shown. */
let shownDetail: DetailParts | undefined;

function showDetail(): void {
  const detail = byId('detail');
  list.mark(address.open);
  detail.hidden = address.open === '';
  document.body.classList.toggle('whole', address.open !== '');
  if (address.open === '') {
    view().close?.();
    return;
  }
  const found = view().detail(address.open);
  if (typeof found === 'object' && found === shownDetail) return;
  shownDetail = typeof found === 'object' ? found : undefined;
  const title = shownDetail?.title ?? (found === undefined ? 'There is no such item' : 'Loading…');
  const close = button('×', closeDetail, { class: 'close', 'aria-label': 'Close' });
  detail.replaceChildren(element('header', {}, element('h2', {}, title), close), ...(shownDetail?.content ?? []));
  detail.scrollTop = 0;
}

function closeDetail(): void {
  go({ ...address, open: '' }, true);
  list.focus();
}

function fillFilters(): void {
  for (const name of filterNames) {
    const input = field(name);
    if (input.type === 'checkbox') (input as HTMLInputElement).checked = address[name] !== '';
    else if (input.value.trim() !== address[name]) input.value = address[name]; // keeps a trailing space during typing
  }
  if (filterNames.some((name) => name !== 'text' && address[name] !== '')) showFilters(true);
}

function showFilters(shown: boolean): void {
  byId('more').setAttribute('aria-expanded', String(shown));
}

function field(name: (typeof filterNames)[number]): HTMLInputElement | HTMLSelectElement {
  return byId<HTMLFormElement>('filters').elements.namedItem(name) as HTMLInputElement | HTMLSelectElement;
}

function onFilter(): void {
  const values = filterNames.map((name): [typeof name, string] => {
    const input = field(name);
    return [name, input.type === 'checkbox' ? ((input as HTMLInputElement).checked ? '1' : '') : input.value.trim()];
  });
  if (values.some(([name, value]) => address[name] !== value)) {
    go({ ...address, ...Object.fromEntries(values), open: '' }, true);
  }
}

const REFUSED: Readonly<Record<number, string>> = { 401: 'Token not accepted', 403: 'May not read' };
const STATES = { connecting: 'Connecting…', live: 'Live', paused: 'Paused' };

function showState(state: ConnectionState): void {
  missing = state.kind === 'waiting' ? state.reason : '';
  showRest();
  const shown = byId('state');
  shown.className = state.kind;
  if (state.kind === 'waiting') shown.textContent = `${state.reason}. Next try in ${state.seconds} s`;
  else if (state.kind === 'refused') shown.textContent = REFUSED[state.status] ?? 'Refused';
  else shown.textContent = STATES[state.kind];
  if (state.kind === 'live') {
    notify('');
    byId('access').hidden = true;
  }
  if (state.kind !== 'refused') return;
  if (service.isHosted && state.status === 401) showAccess('Not accepted: check the deployment and the token');
  else if (service.isHosted && state.status === 403) showAccess(state.error);
  else notify(state.error, true);
}

/** Shows the form for the token if the service needs one. */
function showAccess(problem: string): void {
  const form = byId<HTMLFormElement>('access');
  const isNeeded = service.isHosted && (problem !== '' || !service.hasAccess);
  const appears = isNeeded && form.hidden;
  form.hidden = !isNeeded;
  byId('leave').hidden = !service.hasAccess || !service.isHosted;
  byId('turned-away').textContent = problem;
  document.title = service.deployment === '' ? 'assetlog' : `${service.deployment} · assetlog`;
  document
    .querySelector('h1')
    ?.replaceChildren('assetlog', ...(service.deployment === '' ? [] : [element('span', {}, service.deployment)]));
  const input = form.elements.namedItem('deployment') as HTMLInputElement;
  if (input.value === '') input.value = service.deployment;
  if (appears) (input.value === '' ? input : (form.elements.namedItem('token') as HTMLElement)).focus();
  if (!isNeeded || problem !== '') return;
  byId('state').className = 'refused';
  byId('state').textContent = 'Token needed';
}

function signIn(): void {
  const form = byId<HTMLFormElement>('access');
  const value = (name: string) => (form.elements.namedItem(name) as HTMLInputElement).value.trim();
  const problem = service.signIn(value('deployment'), value('token'));
  if (problem !== undefined) {
    byId('turned-away').textContent = problem;
    return;
  }
  form.reset();
  for (const one of Object.values(all)) one.clear();
  show(address, true);
}

function signOut(): void {
  service.signOut();
  showSources(new Map());
  for (const one of Object.values(all)) one.clear();
  show({ ...address, open: '' }, true);
}

/** @param canRetry whether to show a button that tries again */
function notify(text: string, canRetry = false): void {
  const notice = byId('notice');
  notice.hidden = text === '';
  notice.replaceChildren(text, ...(canRetry ? [' ', button('Try again', connect)] : []));
}

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || byId<HTMLDialogElement>('keys').open) return;
  const { target } = event;
  if (event.key === 'Escape') {
    if (address.open !== '') closeDetail();
    else if (target instanceof HTMLElement) target.blur();
    return;
  }
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
  const viewName = views[Number(event.key) - 1];
  if (viewName !== undefined) go(addressOf(viewName), false);
  else if (event.key === '/') field('text').focus();
  else if (event.key === '?') byId<HTMLDialogElement>('keys').showModal();
  else if (!isForList(event.key, target as Element) || !list.onKey(event.key, !isWithin(target as Element, 'detail')))
    return;
  event.preventDefault();
}

/** Whether a key is for the list, and not for the focused element: a button, a link, or a scrolling element. */
function isForList(key: string, target: Element): boolean {
  if (key === 'j' || key === 'k' || target === document.body || isWithin(target, 'list')) return true;
  return key !== 'Enter' && key !== ' ' && !isWithin(target, 'detail') && !isWithin(target, 'nothing');
}

function isWithin(target: Element, id: string): boolean {
  return byId(id).contains(target);
}

function listen(): void {
  byId('filters').addEventListener('change', onFilter);
  byId('filters').addEventListener('submit', (event) => {
    event.preventDefault();
    onFilter();
  });
  let timer = 0;
  for (const name of ['text', 'key_prefix'] as const) {
    field(name).addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(onFilter, 150);
    });
  }
  byId('access').addEventListener('submit', (event) => {
    event.preventDefault();
    signIn();
  });
  byId('leave').addEventListener('click', signOut);
  byId('reset').addEventListener('click', () => {
    service.text('test/reset', AbortSignal.timeout(10_000), 'POST').catch(({ message }: Error) => notify(message));
  });
  byId('more').addEventListener('click', ({ currentTarget }) =>
    showFilters((currentTarget as Element).getAttribute('aria-expanded') !== 'true'),
  );
  byId('newer').addEventListener('click', () => list.toTop());
  byId('search').addEventListener('click', () => view().toggleSearch());
  byId('list').addEventListener('scroll', () => {
    if (newRows > 0 && list.isAtTop) showRest();
  });
  const dialog = byId<HTMLDialogElement>('keys');
  dialog.append(
    element('h2', {}, 'Keys'),
    element('dl', {}, ...keys.flatMap(([key, does]) => [element('dt', {}, key), element('dd', {}, does)])),
    button('Close', () => dialog.close()),
  );
  byId('help').addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', onKey);
  addEventListener('hashchange', () => show(readAddress(location.hash)));
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) connection.stop();
    else connect();
  });
}

listen();
updateAges();
show(address, true);

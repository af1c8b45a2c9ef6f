/** What is shown while there is nothing to list: how to send the first report, or which filters exclude all events. */

import { copyButton, element } from './dom.ts';
import type { Service } from './service.ts';

/** @returns a first report to copy, with the address of this service */
export function firstReport(service: Service): Node[] {
  const token = service.isHosted ? ` \\\n  -H '${service.tokenHeader.replaceAll("'", "'\\''")}: TOKEN'` : '';
  const command = `curl '${service.reportUrl()}/report_asset_materialization/'${token} \\
  -H 'Content-Type: application/json' \\
  -d '{"asset_key": ["warehouse", "orders"], "metadata": {"rows": 1200}}'`;
  const shown = element('pre', { tabindex: '0', 'aria-label': 'Command' }, command);
  return [
    element('h2', {}, 'No events yet'),
    element('p', {}, 'Send a first report; it appears here at once:'),
    shown,
    copyButton(command, shown),
  ];
}

/** Elements of the page. Text from outside is always set as text, never parsed as HTML. */

/** The content of an element. A string becomes a text node. */
export type Content = Node | string;

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string>> = {},
  ...content: readonly Content[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...content);
  return made;
}

/** @returns a button that calls `act` */
export function button(text: string, act: () => void, attributes: Readonly<Record<string, string>> = {}): HTMLElement {
  const made = element('button', { type: 'button', ...attributes }, text);
  made.addEventListener('click', act);
  return made;
}

/** @returns the element of `index.html` with this id, such as `list` */
export function byId<Kind extends HTMLElement = HTMLElement>(id: string): Kind {
  return document.getElementById(id) as Kind;
}

/** Copies a text. If the browser does not allow it (without TLS, except from localhost), selects the element that shows it. */
export async function copy(text: string, shownIn: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(shownIn); // so that the user can copy it
    return false;
  }
}

/** @returns a button that copies a text and shows the result */
export function copyButton(text: string, shownIn: HTMLElement): HTMLElement {
  const made = button('Copy', () => {
    void copy(text, shownIn).then((copied) => {
      made.textContent = copied ? 'Copied' : 'Selected';
      setTimeout(() => {
        made.textContent = 'Copy';
      }, 2_000);
    });
  });
  return made;
}

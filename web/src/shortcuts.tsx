import { useEffect, useRef } from 'preact/hooks';
import { navigate } from './state/route.ts';

/** Keys that work anywhere but in a text field. */
export function useShortcuts(paths: readonly string[], onHelp: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target instanceof HTMLElement ? event.target : undefined;
      const isTyping = target?.matches('input:not([type=checkbox]), select, textarea') ?? false;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'Escape' && isTyping) return target?.blur();
      if (isTyping) return;
      const path = paths[Number(event.key) - 1];
      if (path !== undefined) navigate(path);
      else if (event.key === '/') {
        event.preventDefault();
        document.getElementById('search')?.focus();
      } else if (event.key === '?') onHelp();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, [paths, onHelp]);
}

const keys: readonly (readonly [string, string])[] = [
  ['1 – 6', 'Go to a view'],
  ['/', 'Search'],
  ['↑ ↓ Page Up Page Down Home End', 'Move in a list'],
  ['Enter', 'Open the row'],
  ['Esc', 'Leave the search, close this'],
  ['?', 'Show these keys'],
];

export function Shortcuts({ onClose }: { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="keys">
      <h2 id="keys">Keys</h2>
      <dl class="keys">
        {keys.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => dialog.current?.close()}>
        Close
      </button>
    </dialog>
  );
}

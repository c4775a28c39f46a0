import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useStore } from '../state/hooks.ts';
import { Icon, type IconName } from './icons.tsx';

/** There is nothing to show; if something could not be read, nobody knows. */
export function Empty({
  icon,
  title,
  children,
}: {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  const isUnknown = useStore(({ failures }) => failures.length > 0);
  return (
    <div class="empty">
      <Icon name={isUnknown ? 'warning' : icon} size={28} />
      <p class="empty-title">{isUnknown ? 'Unknown' : title}</p>
      <p>{isUnknown ? 'Not everything could be read; see the top of the page.' : children}</p>
    </div>
  );
}

/** One line: all is as it should be. */
export function Calm({ children }: { readonly children: string }) {
  const isUnknown = useStore(({ failures }) => failures.length > 0);
  return (
    <p class={`calm ${isUnknown ? 'warning' : 'good'}`}>
      <Icon name={isUnknown ? 'warning' : 'good'} />
      {isUnknown ? 'Unknown: not everything could be read; see the top of the page.' : children}
    </p>
  );
}

export function Failed({ message }: { readonly message: string }) {
  return (
    <p class="note bad" role="alert">
      <Icon name="bad" /> {message}
    </p>
  );
}

/** Where rows will be. */
export function Loading({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} class="ghost" />
      ))}
    </div>
  );
}

/** A command to run: the page itself changes nothing. */
export function Command({ label, command }: { readonly label?: string; readonly command: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(command);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <div class="command">
      {label && <span class="command-label">{label}</span>}
      <code tabIndex={0}>{command}</code>
      <button type="button" class="quiet" onClick={() => void copy()} aria-label={`Copy: ${command}`}>
        <Icon name={isCopied ? 'good' : 'copy'} />
        <span>{isCopied ? 'Copied' : 'Copy'}</span>
      </button>
    </div>
  );
}

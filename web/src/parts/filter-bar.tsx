import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { setQuery } from '../state/route.ts';
import { Icon } from './icons.tsx';
import { count } from './words.ts';

export function SearchBox({ value, label }: { readonly value: string; readonly label: string }) {
  return (
    <label class="search">
      <Icon name="search" />
      <span class="hidden">{label}</span>
      <input
        type="search"
        id="search"
        placeholder={label}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setQuery({ q: event.currentTarget.value })}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

export interface Choice {
  readonly value: string;
  readonly count: number;
}

/** One of the values that there are, or all. */
export function ChoiceBox({
  name,
  label,
  value,
  choices,
}: {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly choices: readonly Choice[];
}) {
  const isKnown = value === '' || choices.some((choice) => choice.value === value);
  // There may be a thousand nodes: they are not compared again while one types in the search.
  const options = useMemo(
    () =>
      choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {`${choice.value} (${choice.count.toLocaleString('en')})`}
        </option>
      )),
    [choices],
  );
  return (
    <label class={`choice${value ? ' set' : ''}`}>
      <span class="hidden">{label}</span>
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })}>
        <option value="">{label}</option>
        {!isKnown && <option value={value}>{value}</option>}
        {options}
      </select>
    </label>
  );
}

export interface FilterBarProps {
  readonly children: ComponentChildren;
  readonly shown: number;
  readonly of: number;
  readonly what: string;
}

export function FilterBar({ children, shown, of, what }: FilterBarProps) {
  return (
    <div class="filters" role="search">
      {children}
      <span class="muted" role="status">
        {shown === of ? count(of, what) : `${shown.toLocaleString('en')} of ${of.toLocaleString('en')}`}
      </span>
    </div>
  );
}

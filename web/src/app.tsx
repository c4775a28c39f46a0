import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './parts/icons.tsx';
import { Loading } from './parts/notes.tsx';
import { Shortcuts, useShortcuts } from './shortcuts.tsx';
import { useStore } from './state/hooks.ts';
import { followLinks, type Route, useRoute } from './state/route.ts';
import type { State } from './state/store.ts';
import { ThemeButton } from './theme.tsx';
import { Evacuation } from './views/evacuation.tsx';
import { Moves } from './views/moves.tsx';
import { NodeView } from './views/node.tsx';
import { Nodes } from './views/nodes.tsx';
import { Orphans } from './views/orphans.tsx';
import { Overview } from './views/overview.tsx';
import { Volume } from './views/volume.tsx';
import { Volumes } from './views/volumes.tsx';

interface View {
  readonly path: string;
  readonly title: string;
  readonly icon: IconName;
  /** What deserves a look: beside the title. */
  readonly count?: (state: State) => number;
}

const views: readonly View[] = [
  { path: '', title: 'Overview', icon: 'overview', count: ({ tables }) => tables.waiting.rows.size },
  { path: 'nodes', title: 'Nodes', icon: 'nodes' },
  { path: 'volumes', title: 'Volumes', icon: 'volumes' },
  {
    path: 'moves',
    title: 'Moves',
    icon: 'moves',
    count: ({ tables }) => [...tables.moves.rows.values()].filter(({ isOver }) => !isOver).length,
  },
  { path: 'evacuate', title: 'Evacuate', icon: 'evacuate' },
  { path: 'orphans', title: 'Orphans', icon: 'orphans', count: ({ tables }) => tables.orphans.rows.size },
];

export function App() {
  const route = useRoute();
  const isShown = useStore(({ connection }) => connection !== 'connecting');
  const main = useRef<HTMLElement>(null);
  const [isHelp, setHelp] = useState(false);
  useShortcuts(
    views.map(({ path }) => `/${path}`),
    () => setHelp(true),
  );
  useEffect(() => {
    const title = route.name ?? views.find(({ path }) => path === route.view)?.title ?? 'Not found';
    document.title = `${title} · Moorage`;
    // After a click or a key, a screen reader reads on from the new view. The search box keeps the keyboard.
    main.current?.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
  }, [route.view, route.name]);
  return (
    <div class="app" onClick={followLinks}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <a class="brand" href="/">
          <Icon name="anchor" size={20} /> Moorage
        </a>
        <ClusterName />
        <ThemeButton />
      </header>
      <nav aria-label="Views">
        {views.map((view) => (
          <NavLink key={view.path} view={view} isCurrent={route.view === view.path} />
        ))}
      </nav>
      <main id="main" ref={main} tabIndex={-1}>
        <Banner />
        {isShown ? <Current route={route} /> : <Starting />}
      </main>
      {isHelp && <Shortcuts onClose={() => setHelp(false)} />}
    </div>
  );
}

function NavLink({ view, isCurrent }: { readonly view: View; readonly isCurrent: boolean }) {
  const count = useStore((state) => view.count?.(state) ?? 0);
  return (
    <a href={`/${view.path}`} aria-current={isCurrent ? 'page' : undefined}>
      <Icon name={view.icon} size={18} />
      <span>{view.title}</span>
      {count > 0 && <span class="count">{count.toLocaleString('en')}</span>}
    </a>
  );
}

function Current({ route }: { readonly route: Route }) {
  const { view, name } = route;
  if (view === '') return <Overview />;
  if (view === 'nodes') return name ? <NodeView key={name} name={name} /> : <Nodes route={route} />;
  if (view === 'volumes') return name ? <Volume key={name} name={name} /> : <Volumes route={route} />;
  if (view === 'moves') return <Moves />;
  if (view === 'evacuate') return <Evacuation route={route} />;
  return <Orphans />;
}

const stateWords = {
  connecting: 'Connecting',
  live: 'Live',
  incomplete: 'Incomplete',
  lost: 'Disconnected',
  refused: 'Refused',
} as const;

function ClusterName() {
  const cluster = useStore((state) => state.cluster);
  const connection = useStore((state) => state.connection);
  const isIncomplete = useStore(({ failures }) => failures.length > 0);
  const state = connection === 'live' && isIncomplete ? 'incomplete' : connection;
  return (
    <div class="cluster">
      <span class="cluster-name">{cluster}</span>
      <span class={`connection ${state}`} role="status">
        {stateWords[state]}
      </span>
    </div>
  );
}

function Banner() {
  const connection = useStore((state) => state.connection);
  const failures = useStore((state) => state.failures);
  return (
    <div class="banners" aria-live="polite">
      {connection === 'lost' && (
        <p class="note warning">
          <Icon name="warning" /> Disconnected from <code>kubectl moorage ui</code>. What you see is as it was; the page
          connects again by itself. If you ended the command, start it again and open its new address.
        </p>
      )}
      {connection === 'refused' && (
        <p class="note bad">
          <Icon name="bad" /> This page has no valid token. Open the address that <code>kubectl moorage ui</code> has
          printed.
        </p>
      )}
      {failures.length > 0 && (
        <div class="note warning">
          <Icon name="warning" />
          <div>
            Not everything can be read now. What is shown may be old, and what is missing is unknown, not absent.
            <ul>
              {failures.map(({ resources, message }) => (
                <li key={message}>
                  <strong>{resources.join(', ')}</strong>: {message}
                </li>
              ))}
            </ul>
          </div>
        </div>
      )}
    </div>
  );
}

function Starting() {
  return (
    <>
      <h1 tabIndex={-1}>Reading the cluster…</h1>
      <Loading />
    </>
  );
}

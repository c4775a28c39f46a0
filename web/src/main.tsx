import { render } from 'preact';
import { App } from './app.tsx';
import { SessionContext } from './state/hooks.ts';
import { Store } from './state/store.ts';
import { follow } from './state/stream.ts';
import { takeToken } from './state/token.ts';
import './style/base.css';
import './style/layout.css';
import './style/lists.css';
import './style/details.css';

const token = takeToken() ?? '';
const store = new Store();
render(
  <SessionContext.Provider value={{ store, token }}>
    <App />
  </SessionContext.Provider>,
  document.getElementById('page') as HTMLElement,
);
void follow(store, token);

import { leave } from './names.ts';

type Annotations = Readonly<Record<string, string>> | undefined;

/** Whether the operator has answered the current request: its data is no longer needed. */
export function hasLeft(annotations: Annotations): boolean {
  const request = annotations?.[leave.request];
  return Boolean(request) && request === annotations?.[leave.acknowledgement];
}

/** How far the operator is, for a person who waits; undefined if it was not asked. */
export function leaveState(annotations: Annotations): string | undefined {
  const request = annotations?.[leave.request];
  if (!request) return undefined;
  const [node = '', since = ''] = request.split('@');
  if (hasLeft(annotations)) return `the data has left node ${node}`;
  const message = annotations?.[leave.message];
  return `its operator was asked to leave node ${node} at ${since}: ${message || 'no answer yet'}`;
}

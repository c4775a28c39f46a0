import { type Certificate, selfSigned } from '../../http/self-signed.ts';

/** Longer than any move; a restarted agent makes new keys anyway. */
const validForMs = 90 * 24 * 60 * 60_000;

/** A key for one end of one move. Import this file only when a move begins: its library takes memory and time to load. */
export async function newMoveKey(nowMs: number): Promise<Certificate> {
  return selfSigned({ commonName: 'moorage move', dnsName: 'move.moorage', nowMs, validForMs, isForClients: true });
}

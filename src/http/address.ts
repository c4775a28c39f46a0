import { InvalidInput } from '../base/errors.ts';

/** An address in Go's format, as in TopoLVM's flags: `:8080`, `127.0.0.1:8080`, `[::1]:8080`. */
export function parseAddress(address: string): { host: string | undefined; port: number } {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:[\]]*)):(?<port>\d{1,5})$/.exec(address);
  const port = Number(match?.groups?.port);
  if (!match?.groups || port > 65_535) {
    throw new InvalidInput(`invalid address ${JSON.stringify(address)}: use host:port or :port`);
  }
  return { host: match.groups.v6 || match.groups.host || undefined, port };
}

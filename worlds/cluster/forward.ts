// forward.ts HOST PORT: accepts connections on the listening socket of file descriptor 3, and forwards them to HOST:PORT.
// It runs in the cluster's network namespace while its socket belongs to the host's. This is the only connection between
// them, and needs no interface, route or address of the host.
import { connect, createServer } from 'node:net';

const [host = '', port = ''] = process.argv.slice(2);

createServer({ allowHalfOpen: true }, (outside) => {
  const inside = connect({ host, port: Number(port), allowHalfOpen: true });
  outside.pipe(inside).pipe(outside);
  outside.on('error', () => inside.destroy());
  inside.on('error', () => outside.resetAndDestroy());
}).listen({ fd: 3 });

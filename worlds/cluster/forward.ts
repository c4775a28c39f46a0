// forward.ts HOST PORT: accepts connections on the listening socket it was given as file descriptor 3, and passes them
// on to HOST:PORT. It runs in the cluster's network namespace while its socket belongs to the host's: the one way
// through, which needs no interface, no route and no address of the host.
import { connect, createServer } from 'node:net';

const [host = '', port = ''] = process.argv.slice(2);

createServer({ allowHalfOpen: true }, (outside) => {
  const inside = connect({ host, port: Number(port), allowHalfOpen: true });
  outside.pipe(inside).pipe(outside);
  outside.on('error', () => inside.destroy());
  inside.on('error', () => outside.resetAndDestroy());
}).listen({ fd: 3 });

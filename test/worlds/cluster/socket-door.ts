// socket-door.ts SOCKET HOST PORT: passes connections to HOST:PORT on to a unix socket. A node is a machine with a
// kernel of its own, so a socket of the control plane's programs reaches it by the network only.
import { connect, createServer } from 'node:net';

const [socket = '', host = '', port = ''] = process.argv.slice(2);

createServer((outside) => {
  const inside = connect(socket);
  outside.pipe(inside).pipe(outside);
  outside.on('error', () => inside.destroy());
  inside.on('error', () => outside.destroy());
}).listen({ host, port: Number(port) });

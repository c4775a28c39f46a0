/**
 * Node's HTTP, not imported but asked for: an import reads everything that the module exports, and some of that loads
 * the fetch and WebSocket of browsers. Nobody here uses them, and each process would hold 4 MiB more.
 */
export const { Agent, createServer, request } = process.getBuiltinModule('node:http');
export type Agent = InstanceType<typeof Agent>;

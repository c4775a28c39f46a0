/**
 * Node's HTTP, loaded without an import: an import reads all exports of the module, and some of them load the browser
 * APIs fetch and WebSocket. Nothing here uses those, and each process would need 4 MiB more.
 */
export const { Agent, createServer, request } = process.getBuiltinModule('node:http');
export type Agent = InstanceType<typeof Agent>;

// Runs next to etcd. A write of its own creates a revision that nobody else has read.
const etcd = 'http://127.0.0.1:2379/v3/kv';

async function post(path: string, body: object): Promise<{ header: { revision: string } }> {
  const answer = await fetch(`${etcd}/${path}`, { method: 'POST', body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`etcd refused ${path}: ${await answer.text()}`);
  return (await answer.json()) as { header: { revision: string } };
}

const { header } = await post('put', { key: btoa('moorage-test'), value: btoa('now') });
await post('compaction', { revision: header.revision, physical: true });

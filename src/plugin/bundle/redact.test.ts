import assert from 'node:assert/strict';
import { test } from 'node:test';
import { redact, redactUserPod, scrub } from './redact.ts';

test('what may be a secret is redacted, and what a bug report needs stays', () => {
  const container = {
    name: 'node',
    args: ['node', '--csi-socket=/csi.sock', '--token=t0psecret', '--api-key', 't0psecret', '--log-level', 'info'],
    env: [
      { name: 'PASSWORD', value: 't0psecret' },
      { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'x' } } },
    ],
  };
  const annotations = {
    'kubectl.kubernetes.io/last-applied-configuration': '{"t0psecret":1}',
    'example.com/anything': 't0psecret',
    'moorage.dev/claim': 'db/data',
    'volume.kubernetes.io/selected-node': 'a',
  };
  const redacted = redact({
    metadata: { name: 'x', annotations, managedFields: [{ manager: 't0psecret' }] },
    spec: { containers: [container], volumes: [{ csi: { volumeAttributes: { password: 't0psecret' } } }] },
    parameters: { 'csi.storage.k8s.io/node-stage-secret-name': 'key-of-db' },
  } as object);
  const text = JSON.stringify(redacted);
  assert.doesNotMatch(text, /t0psecret/);
  assert.match(text, /"moorage\.dev\/claim":"db\/data"/);
  assert.match(text, /"--csi-socket=\/csi\.sock","--token=REDACTED","--api-key","REDACTED","--log-level","info"/);
  assert.match(text, /"name":"PASSWORD","value":"REDACTED"/);
  assert.match(text, /key-of-db/, 'names of Secrets are no secrets');
});

test('of a user’s pod only its place and its claims are kept', () => {
  const stored = { name: 'db-0', namespace: 'shop', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const text = JSON.stringify(
    redactUserPod({
      metadata: { ...stored, labels: { a: 't0psecret' }, annotations: { 'kubernetes.io/x': 't0psecret' } },
      spec: {
        nodeName: 'a',
        containers: [{ name: 'db', image: 'db:1', command: ['t0psecret'], env: [{ name: 'X', value: 't0psecret' }] }],
        volumes: [
          { name: 'data', persistentVolumeClaim: { claimName: 'data-db-0' } },
          { name: 'other', csi: { driver: 'x', volumeAttributes: { key: 't0psecret' } } },
        ],
      },
      status: { containerStatuses: [{ state: { terminated: { exitCode: 1, message: 't0psecret' } } }] as never },
    }),
  );
  assert.doesNotMatch(text, /t0psecret/);
  assert.match(text, /"nodeName":"a".*"claimName":"data-db-0"/);
});

const texts: readonly (readonly [string, string])[] = [
  ['password=hunter22 next', 'password=REDACTED next'],
  ['{"token":"abcdef","size":1}', '{"token":"REDACTED","size":1}'],
  ['{\\"passphrase\\":\\"abcdef\\"}', '{\\"passphrase\\":\\"REDACTED\\"}'],
  ['Authorization: Bearer abcdefgh.ijkl', 'Authorization: Bearer REDACTED'],
  ['https://me:pass@example.com/x', 'https://REDACTED@example.com/x'],
  ['got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln here', 'got REDACTED here'],
  ['-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nrest', 'REDACTED\nrest'],
  [
    'cannot create volume data-db-0: device class "ssd" has 12 GiB free',
    'cannot create volume data-db-0: device class "ssd" has 12 GiB free',
  ],
];

for (const [text, expected] of texts) {
  test(`scrubbed: ${text.slice(0, 30)}`, () => assert.equal(scrub(text), expected));
}

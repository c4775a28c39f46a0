import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explanation } from '../../explain/explanation.ts';
import { screen } from './command.ts';
import { parseSubject } from './explained.ts';

test('on a narrow terminal sentences are wrapped, and commands stay whole', () => {
  const found = explanation('pod db-0', {
    code: 'NodeCordoned',
    cause: 'its data is on node b, which is cordoned',
    advice: 'run kubectl uncordon b',
    evidence: ['Node b: it is cordoned'],
    remedy: ['kubectl uncordon b', 'kubectl moorage migrate pvc/data -n prod # or move its data to another node'],
  });
  assert.equal(
    screen([found], [], { columns: 60, colours: false }),
    `✘ pod db-0 waits: its data is on node b, which is cordoned;
  run kubectl uncordon b

    Node b: it is cordoned

  To do:
    kubectl uncordon b
    kubectl moorage migrate pvc/data -n prod
      # or move its data to another node`,
  );
});

test('a word names a kind, or a namespace, or only a name', () => {
  for (const [word, ...expected] of [
    ['data', undefined, 'prod', 'data'],
    ['shop/data', undefined, 'shop', 'data'],
    ['PVC/data', 'claim', 'prod', 'data'],
    ['sts/db', 'set', 'prod', 'db'],
    ['deployment', undefined, 'prod', 'deployment'],
  ] as const) {
    const { kind, namespace, name } = parseSubject(word, 'prod');
    assert.deepEqual([kind, namespace, name], expected);
  }
});

test('a kind that cannot be explained is refused with those that can', () => {
  for (const word of ['deployment/x', 'deploy/x', 'job/x', 'sc/x']) {
    assert.throws(() => parseSubject(word, 'prod'), /^InvalidInput: why explains no \w+; write pvc\/NAME, pod\/NAME, /);
  }
  assert.throws(() => parseSubject('pvc/', 'prod'), /"pvc\/" names nothing; write pvc\/NAME/);
});

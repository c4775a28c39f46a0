import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { classProblem } from './storage-class.ts';
import { storageClass } from './testing/objects.ts';

const policyFile = join(import.meta.dirname, '../../deploy/helm/moorage/templates/storageclass-policy.yaml');

/** The messages of the policy, with these values for what it finds in a class. */
function messages(values: Readonly<Record<string, string>>): readonly string[] {
  const expressions = readFileSync(policyFile, 'utf8').matchAll(/messageExpression: >-\n((?: {8}.*\n)+)/g);
  return [...expressions].map(([, lines = '']) =>
    lines
      .replaceAll(/\s*\n\s*/g, ' ')
      .split(' + ')
      .map((part) => /^\s*"(.*)"\s*$/.exec(part)?.[1] ?? values[part.trim()] ?? part)
      .join(''),
  );
}

test('why says the same about a class as the policy that refuses it', () => {
  const zone = 'topology.kubernetes.io/zone';
  const texts = messages({
    'variables.zones[0]': 'zone',
    'variables.zoneSelection': `nodeSelector ${zone}: west`,
    'variables.otherTopologies[0][0]': zone,
  });
  const matchLabelExpressions = [{ key: zone, values: ['west'] }];
  for (const change of [{ parameters: { zone: 'west' } }, { allowedTopologies: [{ matchLabelExpressions }] }]) {
    const { cause, advice } = classProblem(storageClass('fast', change)) ?? {};
    assert.ok(texts.includes(`${cause}; ${advice}`), `${cause}; ${advice}\n${texts.join('\n')}`);
  }
});

test('several zones are selected with node affinity, because a label has one value', () => {
  const advice = (parameters: Record<string, string>) => classProblem(storageClass('fast', { parameters }))?.advice;
  assert.match(advice({ zone: 'a' }) ?? '', /, with nodeSelector topology.kubernetes.io\/zone: a, because/);
  assert.match(
    advice({ zones: 'a, b' }) ?? '',
    /, with node affinity topology.kubernetes.io\/zone In \[a, b\], because/,
  );
});

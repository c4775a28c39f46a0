import assert from 'node:assert/strict';
import { test } from 'node:test';
import { topologyKey } from '../../../api/names.ts';
import type { StoredVolumeMove } from '../../../api/volume-move.ts';
import { affinityValues } from '../../../kube/resource.ts';
import { nextStep, type Step } from '../next-step.ts';
import type { Observed } from '../observed.ts';
import { observedOfTest } from './move-of-test.ts';

/** What happened, the move, what else is seen, and the step in words. */
export type Row = readonly [what: string, move: StoredVolumeMove, seen: Partial<Observed>, step: string | RegExp];

/** One test per row. */
export function stepTests(rows: readonly Row[]): void {
  for (const [what, move, seen, expected] of rows) {
    const phase = move.status?.phase ?? 'a new move';
    void test(`${phase}, ${what}: ${expected}`, () => {
      const step = inWords(nextStep(move, observedOfTest(move, seen)));
      if (typeof expected === 'string') assert.equal(step, expected);
      else assert.match(step, expected);
    });
  }
}

function inWords(step: Step): string {
  if (step.kind === 'plan') {
    const { sourceNode, targetNode, targetVolume: name } = step.plan;
    return `plan ${sourceNode} to ${targetNode} as ${name}`;
  }
  if (step.kind === 'finish' && step.keptFor.length > 0) return `finish, source kept for ${step.keptFor.join()}`;
  if (step.kind === 'create-volume') {
    const { csi, persistentVolumeReclaimPolicy: policy } = step.wanted.spec ?? {};
    return `create-volume ${csi?.volumeHandle} on ${affinityValues(step.wanted, topologyKey)?.join()}, ${policy}`;
  }
  const details = {
    reason: undefined,
    phase: undefined,
    nodeName: undefined,
    pods: [],
    ...step,
    message: step.kind === 'wait' ? step.message : undefined,
  };
  const { kind, reason, phase, nodeName, message, pods } = details;
  return [kind, reason, phase, nodeName, message, ...pods.map(({ metadata }) => metadata.name)]
    .filter((word) => word !== undefined)
    .join(' ');
}

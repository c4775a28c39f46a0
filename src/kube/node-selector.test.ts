import assert from 'node:assert/strict';
import { test } from 'node:test';
import { selects } from './node-selector.ts';

const node = { name: 'worker-1', labels: { nodeid: 'node07', 'kubernetes.io/hostname': 'worker-1', rack: '12' } };

type Requirement = readonly [key: string, operator: string, ...values: string[]];

const requirements = (list: readonly Requirement[]) =>
  list.map(([key, operator, ...values]) => ({ key, operator, ...(values.length > 0 && { values }) }));
const isSelected = (...terms: { expressions?: readonly Requirement[]; fields?: readonly Requirement[] }[]) =>
  selects(
    {
      nodeSelectorTerms: terms.map(({ expressions = [], fields = [] }) => ({
        matchExpressions: requirements(expressions),
        matchFields: requirements(fields),
      })),
    },
    node,
  );

test('each operator of a node affinity means what it means to the scheduler', () => {
  const rows: readonly (readonly [Requirement, boolean])[] = [
    [['nodeid', 'In', 'node07'], true],
    [['kubernetes.io/hostname', 'In', 'other', 'worker-1'], true],
    [['nodeid', 'In', 'node08'], false],
    [['absent', 'In', 'node07'], false],
    [['constructor', 'Exists'], false],
    [['nodeid', 'NotIn', 'node08'], true],
    [['nodeid', 'NotIn', 'node07', 'node08'], false],
    [['absent', 'NotIn', 'node07'], true],
    [['rack', 'Exists'], true],
    [['absent', 'Exists'], false],
    [['absent', 'DoesNotExist'], true],
    [['rack', 'DoesNotExist'], false],
    [['rack', 'Gt', '11'], true],
    [['rack', 'Gt', '12'], false],
    [['rack', 'Lt', '13'], true],
    [['rack', 'Lt', '-13'], false],
    [['nodeid', 'Gt', '1'], false],
    [['rack', 'Gt', 'eleven'], false],
    [['absent', 'Lt', '5'], false],
    [['rack', 'Resembles', '12'], false],
  ];
  for (const [requirement, expected] of rows) {
    assert.equal(isSelected({ expressions: [requirement] }), expected, requirement.join(' '));
  }
});

test('a node may be named by its field', () => {
  assert.equal(isSelected({ fields: [['metadata.name', 'In', 'worker-1']] }), true);
  assert.equal(isSelected({ fields: [['metadata.name', 'NotIn', 'worker-1']] }), false);
});

test('all requirements of a term must be met, and one term suffices', () => {
  const here: Requirement = ['nodeid', 'In', 'node07'];
  const elsewhere: Requirement = ['rack', 'In', '13'];
  assert.equal(isSelected({ expressions: [here, elsewhere] }), false);
  assert.equal(isSelected({ expressions: [here], fields: [['metadata.name', 'In', 'worker-2']] }), false);
  assert.equal(isSelected({ expressions: [elsewhere] }, { expressions: [here] }), true);
});

test('without requirements nothing is selected', () => {
  assert.equal(isSelected({}), false);
  assert.equal(isSelected(), false);
  assert.equal(selects(undefined, node), false);
});

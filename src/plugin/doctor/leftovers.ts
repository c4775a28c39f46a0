import { nodeFinalizer, otherNodeFinalizer, webhookConfigurationName } from '../../api/names.ts';
import { count } from '../terminal.ts';
import { servingAgents } from './agents.ts';
import { area, type Finding, some } from './finding.ts';

/** How long the removal of a Node may take before it counts as stuck. */
const removalMs = 10 * 60_000;

export const nodeRemoval = area({
  name: 'node removal',
  needs: ['nodes', 'pods', 'facts'],
  judge({ nodes, pods, facts, nowMs }) {
    const agents = servingAgents(pods, nowMs);
    const ours = nodes.filter(({ metadata }) =>
      metadata.finalizers?.some((each) => each === nodeFinalizer || each === otherNodeFinalizer),
    );
    const stuck = ours.filter(
      ({ metadata }) => metadata.deletionTimestamp && nowMs - Date.parse(metadata.deletionTimestamp) > removalMs,
    );
    const unprotected = nodes.filter(
      (node) => !ours.includes(node) && !node.metadata.deletionTimestamp && agents.has(node.metadata.name),
    );
    const findings = [
      ...stuck.map(({ metadata: { name, deletionTimestamp } }): Finding => {
        const volumes = facts.volumes.filter(({ node }) => node === name).length;
        return {
          severity: 'warning',
          what: `Node ${name} is being deleted for more than ten minutes, and still has the finalizer of Moorage.`,
          evidence: [`deletionTimestamp ${deletionTimestamp}`, `${count(volumes, 'LogicalVolume')} on it`],
          fix: `kubectl describe node ${name}   # the events say what the controller waits for; see docs/node-removal.md`,
        };
      }),
      ...unprotected.map(
        ({ metadata: { name } }): Finding => ({
          severity: 'warning',
          what: `Node ${name} does not have the finalizer of Moorage: if it is deleted, its claims are not released.`,
          evidence: [`finalizers of Node ${name} lack ${nodeFinalizer}`],
          fix: `kubectl logs -A -l app.kubernetes.io/component=node --prefix | grep ${name}`,
        }),
      ),
    ];
    return { summary: `${count(ours.length, 'node')} protected until volumes are released`, findings };
  },
});

const oldDriver = 'topolvm.cybozu.com';

export const topolvm = area({
  name: 'TopoLVM',
  needs: ['topolvmPods', 'csiDrivers', 'webhooks', 'crds', 'storageClasses'],
  judge({ topolvmPods, csiDrivers, webhooks, crds, storageClasses }) {
    const running = topolvmPods.filter(({ metadata }) => !metadata.deletionTimestamp);
    const findings: Finding[] = [];
    if (running.length > 0) {
      findings.push({
        severity: 'error',
        what: 'TopoLVM runs beside Moorage: both serve the same driver and the same volumes.',
        evidence: [`pods ${some(running.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`))}`],
        fix: 'see docs/migrating-from-topolvm.md, which says how to stop it without losing volumes',
      });
    }
    const hooks = webhooks.filter(
      ({ metadata }) => metadata.name.includes('topolvm') && metadata.name !== webhookConfigurationName,
    );
    if (hooks.length > 0 && running.length === 0) {
      findings.push({
        severity: 'error',
        what: 'Webhooks of TopoLVM are left, which nobody serves: they can keep pods and claims from being created.',
        evidence: hooks.map(({ metadata }) => `webhook configuration ${metadata.name}`),
        fix: 'see docs/migrating-from-topolvm.md, which says how to stop all of it',
      });
    }
    const old = [
      ...csiDrivers.filter(({ metadata }) => metadata.name === oldDriver).map(() => `csidriver ${oldDriver}`),
      ...crds
        .filter(({ metadata }) => metadata.name.endsWith(`.${oldDriver}`))
        .map(({ metadata }) => `crd ${metadata.name}`),
      ...storageClasses
        .filter(({ provisioner }) => provisioner === oldDriver)
        .map(({ metadata }) => `storageclass ${metadata.name}`),
    ];
    if (old.length > 0) {
      findings.push({
        severity: 'warning',
        what: `Objects of TopoLVM's old driver ${oldDriver} are left, which Moorage does not serve.`,
        evidence: old,
        fix: 'see docs/migrating-from-topolvm.md before you delete one of them: volumes may depend on it',
      });
    }
    return { summary: 'nothing of it is left', findings };
  },
});

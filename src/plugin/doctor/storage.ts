import { driverName, parameters } from '../../api/names.ts';
import { defaultFilesystem } from '../../filesystem/filesystem.ts';
import type { StorageClass, Stored } from '../../kube/resource.ts';
import { type PoolRow, type PoolTrouble, poolRows, poolTroubles } from '../nodes.ts';
import { orphansOf, unlisted } from '../orphans.ts';
import { count } from '../terminal.ts';
import { area, type Finding, some } from './finding.ts';
import type { Observed } from './observed.ts';
import { tagOf } from './versions.ts';

/** What nodes report that are in the cluster. */
function presentReports({ nodes, reports }: Pick<Observed, 'nodes' | 'reports'>) {
  const present = new Set(nodes.map(({ metadata }) => metadata.name));
  return reports
    .map(({ metadata, status }) => ({ name: metadata.name, status }))
    .filter(({ name }) => present.has(name));
}

export const pools = area({
  name: 'pools',
  needs: ['nodes', 'reports'],
  judge(observed) {
    const rows = poolRows(presentReports(observed));
    const findings = rows.flatMap((row) => poolTroubles(row).map((trouble) => poolFinding(row, trouble)));
    const none: Finding = {
      severity: 'warning',
      what: 'No node has a device class, so no volume can be created.',
      evidence: ['no NodeStorage lists a pool'],
      fix: 'helm get values moorage -n moorage-system   # lvmd.deviceClasses; see docs/configuration.md',
    };
    const nodes = new Set(rows.map(({ node }) => node)).size;
    const summary = `${count(rows.length, 'pool')} on ${count(nodes, 'node')}, all healthy and with room`;
    return { summary, findings: rows.length === 0 && observed.nodes.length > 0 ? [none] : findings };
  },
});

function poolFinding(
  { node, deviceClass, place, dataPercent, metadataPercent }: PoolRow,
  trouble: PoolTrouble,
): Finding {
  const { kind, severity, what } = trouble;
  const fixes: Readonly<Record<PoolTrouble['kind'], string>> = {
    Unavailable: `kubectl get nodestorage ${node} -o yaml   # the reason says what to do on node ${node}`,
    Degraded: `kubectl get nodestorage ${node} -o yaml   # the reason says what to do on node ${node}`,
    AlmostFull: `kubectl moorage volumes -A --node ${node} --class ${deviceClass}   # what takes the space\nvgextend ${place} /dev/DISK   # on node ${node}, for a volume group`,
    ThinDataFull: `lvextend --size +10G ${place}   # on node ${node}`,
    ThinMetadataFull: `lvextend --poolmetadatasize +256M ${place}   # on node ${node}`,
  };
  const percents = [
    ...(dataPercent === undefined ? [] : [`dataPercent ${dataPercent}`]),
    ...(metadataPercent === undefined ? [] : [`metadataPercent ${metadataPercent}`]),
  ];
  return {
    severity,
    what: `Class ${deviceClass} on node ${node}: ${what}.`,
    evidence: [[`NodeStorage ${node}, ${place || deviceClass}`, ...percents].join(', ')],
    fix: fixes[kind],
  };
}

export const orphans = area({
  name: 'orphans',
  needs: ['nodes', 'reports', 'facts'],
  ifAbsent: { reports: [] },
  judge({ nodes, reports, facts, nowMs }) {
    const nodeNames = new Set(nodes.map(({ metadata }) => metadata.name));
    const reported = reports.map(({ metadata, status }) => ({ name: metadata.name, status }));
    const all = { ...facts, nodes: reported, nodeNames };
    const found = Map.groupBy(orphansOf(all, nowMs), ({ kind }) => kind);
    const released = found.get('Released')?.length ?? 0; // often kept on purpose
    found.delete('Released');
    const findings = [...found].map(
      ([kind, orphans]): Finding => ({
        severity: kind === 'Missing' ? 'error' : 'warning',
        what: `${count(orphans.length, 'volume')} ${orphans.length === 1 ? 'is' : 'are'} ${kind}: ${orphans[0]?.reason ?? ''}.`,
        evidence: [some(orphans.map(({ name, node }) => `${name} on node ${node}`))],
        fix: 'kubectl moorage orphans   # with the commands that keep or remove each',
      }),
    );
    const more = unlisted(all);
    const summary = `none${released > 0 ? `; ${count(released, 'retained volume')} without a claim` : ''}`;
    return { summary: more > 0 ? `${summary}; ${more} on disks are not listed` : summary, findings };
  },
});

function isOurs({ provisioner }: Stored<StorageClass>): boolean {
  return provisioner === driverName;
}

function deviceClassOf({ parameters: given = {} }: Stored<StorageClass>): string {
  return given[parameters.deviceClass] ?? '';
}

function serves({ deviceClass, isDefault, health }: PoolRow, wanted: string): boolean {
  return (wanted === '' ? isDefault : deviceClass === wanted) && health !== 'Unavailable';
}

export const classes = area({
  name: 'StorageClasses',
  needs: ['nodes', 'reports', 'storageClasses'],
  judge(observed) {
    const rows = poolRows(presentReports(observed));
    const ours = observed.storageClasses.filter(isOurs);
    const findings = ours.flatMap((each): Finding[] => {
      const { name } = each.metadata;
      const wanted = deviceClassOf(each);
      const isServed = rows.some((row) => serves(row, wanted));
      const unserved: Finding = {
        severity: 'error',
        what: `No node serves StorageClass ${name}, so its claims wait forever.`,
        evidence: [
          wanted
            ? `${parameters.deviceClass}: ${wanted}; nodes have ${some([...new Set(rows.map((row) => row.deviceClass))]) || 'none'}`
            : 'it names no device class, and no node has a default one',
        ],
        fix: `kubectl get storageclass ${name} -o yaml\nkubectl moorage nodes   # the classes of each node`,
      };
      const immediate: Finding = {
        severity: 'warning',
        what: `StorageClass ${name} places volumes before their pods, which may then find no node that has room for both.`,
        evidence: [`volumeBindingMode: ${each.volumeBindingMode ?? 'Immediate'}`],
        fix: `kubectl get storageclass ${name} -o yaml   # create it again with volumeBindingMode: WaitForFirstConsumer`,
      };
      const waits = each.volumeBindingMode === 'WaitForFirstConsumer';
      return [...(isServed ? [] : [unserved]), ...(waits ? [] : [immediate])];
    });
    const none = 'none has the provisioner topolvm.io';
    return { summary: ours.length === 0 ? none : `${ours.length}, each served by a node`, findings };
  },
});

/** From these versions on, the sidecars read the API v1 of VolumeAttributesClasses. */
const sidecarsForLimits: ReadonlyMap<string, number> = new Map([
  ['csi-provisioner', 6],
  ['csi-resizer', 2],
]);

const toolOf: Readonly<Record<string, 'e2fsprogs' | 'xfsprogs' | 'btrfsProgs'>> = {
  ext4: 'e2fsprogs',
  xfs: 'xfsprogs',
  btrfs: 'btrfsProgs',
};

export const features = area({
  name: 'LVM and kernel',
  needs: ['nodes', 'reports', 'storageClasses', 'attributesClasses', 'pods'],
  judge(observed) {
    const reports = presentReports(observed);
    const limits = observed.attributesClasses.filter((each) => each.driverName === driverName);
    const findings: Finding[] = [];
    const filesystems = observed.storageClasses
      .filter(isOurs)
      .map(({ parameters: given = {} }) => given['csi.storage.k8s.io/fstype'] || defaultFilesystem.name);
    for (const { name, status } of reports) {
      const { segmentTypes } = status?.features ?? {};
      const isThin = status?.pools.some(({ type }) => type === 'thin');
      if (isThin && segmentTypes && !segmentTypes.includes('thin-pool')) {
        findings.push({
          severity: 'error',
          what: `LVM on node ${name} does not support thin pools, and a class of the node is thin.`,
          evidence: [`segmentTypes: ${some(segmentTypes)}`, `LVM ${status?.versions.lvm ?? 'of unknown version'}`],
          fix: `apt-get install thin-provisioning-tools   # on node ${name}, or its counterpart there`,
        });
      }
      for (const filesystem of new Set(filesystems)) {
        const tool = toolOf[filesystem];
        if (!status || !tool || status.versions[tool]) continue;
        findings.push({
          severity: 'warning',
          what: `The agent on node ${name} cannot create ${filesystem}, which a StorageClass names.`,
          evidence: [`NodeStorage ${name} has no version of ${tool}`],
          fix: `kubectl exec -n moorage-system AGENT -- mkfs.${filesystem} -V   # in the agent's pod on node ${name}`,
        });
      }
      if (limits.length > 0 && status?.features.ioLimits === false) {
        findings.push({
          severity: 'warning',
          what: `Node ${name} cannot limit IO, so claims with a VolumeAttributesClass are refused there.`,
          evidence: [`features.ioLimits: false`, `VolumeAttributesClass ${limits[0]?.metadata.name}`],
          fix: `stat -f -c %T /sys/fs/cgroup   # on node ${name}: it needs cgroup2fs, with the controller io`,
        });
      }
    }
    if (limits.length > 0) findings.push(...oldSidecars(observed));
    const kernels = new Set(reports.map(({ status }) => status?.versions.kernel).filter(Boolean));
    const lvms = new Set(reports.map(({ status }) => status?.versions.lvm).filter(Boolean));
    const summary = [`kernel ${[...kernels].join(', ')}`, ...(lvms.size > 0 ? [`LVM ${[...lvms].join(', ')}`] : [])];
    return { summary: summary.join('; '), findings };
  },
});

/** Those of an older version act on the classes only with a feature gate, and an API that few clusters serve. */
function oldSidecars({ pods }: Pick<Observed, 'pods'>): Finding[] {
  const containers = pods.flatMap(({ spec }) => spec?.containers ?? []);
  return [...sidecarsForLimits].flatMap(([sidecar, since]): Finding[] => {
    const { image = '', args = [] } = containers.find(({ name }) => name === sidecar) ?? {};
    const version = /^v?(\d+)\./.exec(tagOf(image))?.[1];
    const hasGate = args.some((arg) => arg.includes('VolumeAttributesClass=true'));
    if (version === undefined || Number(version) >= since || hasGate) return [];
    return [
      {
        severity: 'warning',
        what: `${sidecar} does not act on VolumeAttributesClasses, so IO limits are not applied.`,
        evidence: [`image ${image}: from ${since}.0 on, it does`],
        fix: 'see docs/controller.md#io-limits   # image.csi in the values of the chart',
      },
    ];
  });
}

export const swap = area({
  name: 'swap',
  needs: ['nodes', 'reports', 'facts'],
  judge(observed) {
    const encrypted = new Set(observed.facts.volumes.filter(({ isEncrypted }) => isEncrypted).map(({ node }) => node));
    const reports = presentReports(observed);
    const findings = reports
      .filter(({ name }) => encrypted.has(name))
      .flatMap(({ name, status }) => swapFindings(name, status?.swap ?? []));
    const withSwap = reports.filter(({ status }) => (status?.swap ?? []).length > 0).length;
    const nodes = `${count(encrypted.size, 'node')} with encrypted volumes`;
    return { summary: `${nodes}, ${count(withSwap, 'node')} with swap`, findings };
  },
});

type Swap = NonNullable<NonNullable<Observed['reports'][number]['status']>['swap']>[number];

function swapFindings(node: string, swap: readonly Swap[]): Finding[] {
  const fix = `swapoff --all   # on node ${node}; or put swap on dm-crypt, see docs/encryption.md`;
  return swap
    .filter(({ protection }) => protection !== 'Encrypted')
    .map(({ device, protection }) => ({
      severity: 'warning',
      what:
        protection === 'Plain'
          ? `Node ${node} has encrypted volumes, and swaps to ${device}, which is not encrypted: their data can get there.`
          : `Node ${node} has encrypted volumes, and it is unknown whether its swap ${device} is encrypted.`,
      evidence: [`NodeStorage ${node}: swap ${device}, protection ${protection}`],
      fix,
    }));
}

import { systemClock } from '../../base/clock.ts';
import { type Command, command } from '../../base/command.ts';
import { InvalidInput } from '../../base/errors.ts';
import { flag, list, onOff, path, text } from '../../base/flags.ts';
import { withSession } from '../connect.ts';
import { isOfMoorage } from '../facts.ts';
import { clusterFlags, namespaceFlag } from '../flags.ts';
import { textOf } from '../manifests.ts';
import { claimsNamed } from '../moves/request.ts';
import { suggestClaims, suggestNodes, suggestPersistentVolumes } from '../suggestions.ts';
import { drop, droppable, lossText, orderOf, untilDropped } from './drop.ts';
import { importable, importManifests, readManifests, toYaml } from './import.ts';
import { foundList } from './import-plan.ts';
import { loss, purge, purgeable } from './purge.ts';
import { readPersistentVolume, reattachment } from './reattach.ts';
import { write } from './writes.ts';

const { output: _, ...cluster } = clusterFlags;
const dryRun = flag({ name: 'dry-run', type: onOff, default: false, description: 'Print the objects, change nothing' });

/** Commands that bring volumes back, or remove them for good. */
export const recoveryCommands = {
  reattach: command({
    summary: 'give a released or retained volume to one claim, with its data',
    words: ['pv/NAME'],
    suggest: suggestPersistentVolumes,
    examples: [
      'kubectl moorage reattach pv/pvc-6b0f4c1e --dry-run           # to the claim that it belonged to',
      'kubectl moorage reattach pv/pvc-6b0f4c1e --to prod/data-db-0',
      'kubectl moorage reattach pv/pvc-6b0f4c1e -n prod --statefulset db',
    ],
    flags: {
      to: flag({
        name: 'to',
        type: text,
        default: '',
        description: 'Claim, as <claim> or <namespace>/<claim>; empty for its last claim; created if it does not exist',
      }),
      statefulSet: flag({
        name: 'statefulset',
        type: text,
        default: '',
        description: 'StatefulSet whose pod gets the volume',
      }),
      dryRun,
      ...namespaceFlag,
      ...cluster,
    },
    async run(flags, { env, print, signal }, [volume = '']) {
      await withSession(flags, env, async ({ client, namespace: current }) => {
        const { to, statefulSet } = flags;
        const request = { volume, to, statefulSet, namespace: flags.namespace || current };
        const { target, writes } = await reattachment(client, request, signal);
        if (flags.dryRun) return print(toYaml(writes.map(({ object }) => object)));
        for (const each of writes) await write(client, each, signal);
        print(`${volume} belongs to claim ${target.namespace}/${target.name}`);
      });
    },
  }),
  purge: command({
    summary: 'remove a retained volume for good, with its data',
    words: ['pv/NAME'],
    suggest: suggestPersistentVolumes,
    examples: ['kubectl moorage purge pv/pvc-6b0f4c1e     # says what would be lost, and how to confirm'],
    flags: {
      confirm: flag({
        name: 'confirm',
        type: text,
        default: '',
        description: 'Name of the PersistentVolume again; without this flag, only show what would be lost',
      }),
      ...cluster,
    },
    async run(flags, { env, print, signal }, [word = '']) {
      await withSession(flags, env, async ({ client }) => {
        const volume = await readPersistentVolume(client, word, signal);
        const found = await purgeable(client, volume, signal);
        const { name } = volume.metadata;
        if (flags.confirm === '') {
          print(`This would remove ${loss(found)}.`);
          return print(`The data cannot be restored. To confirm: kubectl moorage purge pv/${name} --confirm ${name}`);
        }
        if (flags.confirm !== name) throw new InvalidInput(`--confirm ${flags.confirm}: the name is ${name}`);
        await purge(client, found, signal);
        print(`removed ${loss(found)}`);
      });
    },
  }),
  drop: command({
    summary: 'give up the volume of a claim, or all volumes of a pod, which start again elsewhere, empty',
    words: ['pod/NAME|pvc/NAME'],
    suggest: suggestClaims,
    examples: [
      'kubectl moorage drop pod/db-0 -n prod         # says what would be lost, and how to confirm',
      'kubectl moorage drop pvc/data-db-0 -n prod --yes',
    ],
    flags: {
      yes: flag({
        name: 'yes',
        type: onOff,
        default: false,
        description: 'Give up the data; without this flag, only show what would be lost',
      }),
      dryRun,
      wait: flag({
        name: 'wait',
        type: onOff,
        default: true,
        description: 'Wait until the claim has its new volume (it gets one either way)',
      }),
      ...namespaceFlag,
      ...cluster,
    },
    async run(flags, { env, print, screen, signal }, [word = '']) {
      await withSession(flags, env, async ({ client, namespace: current }) => {
        const namespace = flags.namespace || current;
        const claims = await claimsNamed(client, word, namespace, signal, isOfMoorage);
        const found = await Promise.all(claims.map((claim) => droppable(client, namespace, claim, signal)));
        if (flags.dryRun) return print(toYaml(found.map(orderOf)));
        for (const each of found) print(lossText(each, systemClock.now()));
        if (!flags.yes) {
          return print(`Nothing was changed. To confirm: kubectl moorage drop ${word} -n ${namespace} --yes`);
        }
        for (const each of found) await drop(client, each, signal);
        if (!flags.wait) return;
        screen.write('waiting for the new volume; to stop only the waiting, press Ctrl-C\n');
        for (const each of found) print(await untilDropped(client, each, signal));
      });
    },
  }),
  import: command({
    summary: 'bring volumes on the disks of a node into the cluster, after the cluster or its objects were lost',
    examples: [
      'kubectl moorage import --node worker-3 --with-claims > worker-3.yaml   # lists them, and prints objects to review',
      'kubectl moorage import --node worker-3 --volume old-data               # also one that nobody tagged',
      'kubectl moorage import -f worker-3.yaml',
    ],
    flags: {
      node: flag({
        name: 'node',
        type: text,
        default: '',
        description: 'Node whose disks have the volumes',
        suggest: suggestNodes,
      }),
      volume: flag({
        name: 'volume',
        type: list,
        default: [],
        description: 'Volumes that Moorage did not create, by their names on the disks; comma-separated',
      }),
      storageClass: flag({
        name: 'storage-class',
        type: text,
        default: '',
        description: 'StorageClass of the PersistentVolumes; empty for the one of their device class',
      }),
      withClaims: flag({
        name: 'with-claims',
        type: onOff,
        default: false,
        description: 'Also print the claims that the volumes belonged to',
      }),
      file: flag({
        name: 'filename',
        short: 'f',
        type: path,
        default: '',
        description: 'File with the objects to create',
      }),
      ...cluster,
    },
    async run(flags, { env, print, screen, signal }) {
      const { node, file, volume, storageClass, withClaims } = flags;
      if ((node === '') === (file === '')) throw new InvalidInput('use either --node or -f');
      const manifests = file ? readManifests(await textOf(file), file) : [];
      await withSession(flags, env, async ({ client }) => {
        if (file) {
          return importManifests(
            client,
            manifests,
            ({ kind, metadata }, outcome) => {
              print(`${kind} ${metadata.namespace ? `${metadata.namespace}/` : ''}${metadata.name} ${outcome}`);
            },
            signal,
          );
        }
        const request = { nodeName: node, named: volume, storageClass, withClaims };
        const found = await importable(client, request, signal);
        screen.write(`${foundList(found.volumes, found.total, { ...found, nodeName: node })}\n`);
        if (found.manifests.length > 0) print(toYaml(found.manifests));
      });
    },
  }),
} satisfies Record<string, Command>;

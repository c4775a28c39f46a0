import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sourceTexts, type Text } from './source-texts.ts';

/** Who may say how something is destroyed, and why. Everybody else says what is wrong, and where to look. */
const mayAdvise: Readonly<Record<string, string>> = {
  'src/plugin/orphans.ts': 'how to keep and how to remove each orphan, for a person to choose',
  'src/plugin/disk-orphans.ts': 'the same, of volumes on the disks',
  'src/plugin/static-volumes.ts': 'the same, of static volumes',
  'src/plugin/recovery/commands.ts': 'purge and drop, which say what would be lost and are confirmed',
  'src/plugin/recovery/purge.ts': 'the same',
  'src/cli/volume-commands.ts': 'describes moorage volume rm',
  'src/cli/remove-volume.ts': 'how to confirm moorage volume rm',
  'deploy/helm/moorage/templates/logicalvolume-policy.yaml': 'how to confirm a deletion that it refuses',
  'deploy/helm/moorage/templates/node/admission-policy.yaml': 'says what an agent may not do',
  'deploy/helm/moorage/templates/local-pv/_policies.tpl': 'says what the controller may not do',
  'src/lvmd/remote-pool.ts': 'says what an older lvmd cannot do',
};

/** Commands that destroy something. A deleted pod does not count: its owner creates it again. */
const commands =
  /\b(lvremove|vgremove|pvremove|vgreduce|wipefs|blkdiscard|rm -\w*[rf]|moorage volume rm|helm uninstall|kubectl replace --force|kubectl ([^#|;]* )?delete (?!pods?\b))|--(yes|confirm)\b/;

/** As an instruction: "delete the claim", not "cannot delete the claim". */
const verb =
  /(?:^|[:;,(.]\s*|#\s+|\b(?:or|and|then|to|first|please|yourself)\s+)(?:delete|remove|uninstall|erase|wipe|destroy|discard|format|purge)\b/gi;
const thing =
  /^[^.,:;]*(…|\b(claims?|volumes?|PersistentVolumes?|LogicalVolumes?|(Volume)?Snapshots?|disks?|CRDs?|CSIDrivers?|StorageClass(es)?|releases?|data|files?|Nodes?|it|them|one)\b)/i;
const stored = /\b(claims?|volumes?|PersistentVolumes?|LogicalVolumes?|snapshots?|disks?|data|TopoLVM|files?)\b/i;

function destroys({ text }: Text): boolean {
  if (!/\s/.test(text.trim())) return false; // a word of a command that the program runs, or a name
  if (commands.test(text)) return true;
  const isTold = [...text.matchAll(verb)].some(({ index, 0: words }) => thing.test(text.slice(index + words.length)));
  return isTold && stored.test(text);
}

test('no text tells anyone to destroy data, except where that is the question', () => {
  const texts = sourceTexts();
  assert.ok(texts.length > 5000, `only ${texts.length} texts were found`);
  const found = texts.filter(destroys);
  const isAllowed = ({ file }: Text) => file in mayAdvise;
  assert.deepEqual(
    found.filter((text) => !isAllowed(text)).map(({ file, text }) => `${file}: ${text}`),
    [],
  );
  const needless = Object.keys(mayAdvise).filter((path) => !found.some(({ file }) => file === path));
  assert.deepEqual(needless, [], 'they destroy nothing any more');
});

test('advice to destroy is recognized', () => {
  const found = [
    'cannot serve volume …; write a new label, or remove the volume',
    '… is left from a move of volume …; remove it with lvremove',
    'helm uninstall topolvm -n topolvm-system   # see the documentation',
    'kubectl delete pvc … -n …',
    'bring the disks back, or delete the claim and restore a backup',
  ];
  const fine = [
    'cannot remove volume …: …; retry',
    'kubectl delete pod … -n …   # its owner creates it again',
    'kubectl moorage purge pv/… # shows what would be lost',
    'parameter … is unknown; remove it',
    'lvremove',
  ];
  assert.deepEqual(
    [...found, ...fine].filter((text) => destroys({ file: '', text })),
    found,
  );
});

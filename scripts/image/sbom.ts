import { createHash } from 'node:crypto';
import { type DebianPackage, release } from './debian.ts';

/** The part of package-lock.json that we use: packages by directory, such as `node_modules/yaml`. */
export type NpmPackages = Readonly<Record<string, NpmPackage>>;

interface NpmPackage {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
}

/** The packages that are in the bundle, by the `sources` of its source map; unused ones are not shipped. */
export function bundledPackages(sources: readonly string[], locked: NpmPackages): NpmPackages {
  const dirOf = (source: string) => /(node_modules\/.*|)node_modules\/(@[^/]+\/)?[^/]+/.exec(source)?.[0];
  const dirs = new Set(sources.map(dirOf));
  return Object.fromEntries(Object.entries(locked).filter(([dir]) => dirs.has(dir)));
}

export interface SbomInput {
  readonly version: string;
  readonly architecture: string;
  readonly node: { readonly version: string; readonly sha256: string };
  readonly debian: readonly DebianPackage[];
  readonly npm: NpmPackages;
  readonly secondsSinceEpoch: number;
}

const itself = 'SPDXRef-moorage';

/** The contents of the image in SPDX 2.3: every Debian package, every bundled npm package, and Node. */
export function sbomOf(ingredients: SbomInput): object {
  const { version, node, debian, secondsSinceEpoch } = ingredients;
  const parts = [
    part('node', node.version, 'MIT', `pkg:generic/node@${node.version}`, { algorithm: 'SHA256', value: node.sha256 }),
    ...debian.map((one) => debianPart(one, ingredients.architecture)),
    ...Object.entries(ingredients.npm).map(([dir, one]) => npmPart(dir, one)),
  ];
  const fingerprint = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  return {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `moorage-${version}`,
    documentNamespace: `https://moorage.dev/spdx/moorage-${version}-${fingerprint}`,
    creationInfo: {
      created: new Date(secondsSinceEpoch * 1000).toISOString().replace('.000Z', 'Z'),
      creators: [`Tool: moorage-image-${version}`],
    },
    packages: [{ ...part('moorage', version, 'Apache-2.0', `pkg:oci/moorage@${version}`), SPDXID: itself }, ...parts],
    relationships: [
      { spdxElementId: 'SPDXRef-DOCUMENT', relationshipType: 'DESCRIBES', relatedSpdxElement: itself },
      ...parts.map(({ SPDXID }) => ({
        spdxElementId: itself,
        relationshipType: 'CONTAINS',
        relatedSpdxElement: SPDXID,
      })),
    ],
  };
}

interface Checksum {
  readonly algorithm: string;
  readonly value: string;
}

function part(name: string, version: string, license: string, url: string, checksum?: Checksum) {
  return {
    SPDXID: `SPDXRef-${createHash('sha256').update(url).digest('hex').slice(0, 16)}`,
    name,
    versionInfo: version,
    downloadLocation: 'NOASSERTION',
    filesAnalyzed: false,
    licenseConcluded: 'NOASSERTION',
    licenseDeclared: license,
    copyrightText: 'NOASSERTION',
    externalRefs: [{ referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: url }],
    ...(checksum && { checksums: [{ algorithm: checksum.algorithm, checksumValue: checksum.value }] }),
  };
}

function debianPart({ name, version, sha256 }: DebianPackage, architecture: string) {
  const place = `${encodeURIComponent(name)}@${encodeURIComponent(version)}`;
  const url = `pkg:deb/debian/${place}?arch=${architecture}&distro=debian-${release.version}`;
  return part(name, version, 'NOASSERTION', url, { algorithm: 'SHA256', value: sha256 });
}

function npmPart(dir: string, { version = '', license = 'NOASSERTION', integrity = '' }: NpmPackage) {
  const name = dir.slice(dir.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const [algorithm = '', value = ''] = integrity.split('-');
  const url = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return part(name, version, license, url, {
    algorithm: algorithm.toUpperCase(),
    value: Buffer.from(value, 'base64').toString('hex'),
  });
}

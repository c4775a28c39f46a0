import { join } from 'node:path';
import { Document, Scalar, visit } from 'yaml';
import type { CrdSpec } from '../../src/api/crd/crd.ts';
import { logicalVolumeCrd } from '../../src/api/crd/logical-volume.ts';
import { nodeStorageCrd } from '../../src/api/crd/node-storage.ts';
import { volumeMoveCrd } from '../../src/api/crd/volume-move.ts';

export const crdTemplatePath = join(
  import.meta.dirname,
  ...['..', '..', 'deploy', 'helm', 'moorage', 'templates', 'crd.yaml'],
);

const crds: readonly CrdSpec[] = [logicalVolumeCrd, nodeStorageCrd, volumeMoveCrd];

/** The chart's template with all CustomResourceDefinitions. */
export function crdTemplate(): string {
  return `{{- /* Generated from src/api/crd by \`npm run manifests\`: change it there. */ -}}
${crds.map(template).join('---\n')}`;
}

function template(spec: CrdSpec): string {
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ${spec.names.plural}.${spec.group}
  labels:
    {{- include "moorage.labels" . | nindent 4 }}
  annotations:
    # Otherwise uninstalling would delete every ${spec.names.kind}, and with it the record of where volumes are.
    helm.sh/resource-policy: keep
${yamlOf({ spec })}`;
}

/** In the same form as the formatter's: a long text is folded, without quotes. */
function yamlOf(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(key, node) {
      const text = key === 'value' ? node.value : undefined;
      if (typeof text === 'string' && text.length > 80 && text.includes(' ')) node.type = Scalar.BLOCK_FOLDED;
    },
  });
  return document.toString({ lineWidth: 120 });
}

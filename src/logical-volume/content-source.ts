import { contentSourceAnnotation } from '../names.ts';
import type { LogicalVolume } from './logical-volume.ts';

/** What a LogicalVolume is a copy of, by the volume ID of that. */
export interface RecordedSource {
  readonly kind: 'volume' | 'snapshot';
  readonly id: string;
}

export function recordSource({ kind, id }: RecordedSource): Readonly<Record<string, string>> {
  return { [contentSourceAnnotation]: `${kind}/${id}` };
}

/** Undefined for what is no copy, and for a copy that TopoLVM has made: that names its source's object only. */
export function recordedSourceOf({ metadata }: LogicalVolume): RecordedSource | undefined {
  const [, kind, id] = /^(volume|snapshot)\/(.+)$/.exec(metadata?.annotations?.[contentSourceAnnotation] ?? '') ?? [];
  return kind && id ? { kind: kind as RecordedSource['kind'], id } : undefined;
}

/** One line of /proc/self/mountinfo. */
export interface Mount {
  readonly target: string;
  /** The part of the filesystem that is mounted: `/` unless it is a bind mount of less. */
  readonly root: string;
  /** `major:minor` */
  readonly device: string;
  readonly filesystem: string;
  readonly source: string;
  readonly options: readonly string[];
}

export function parseMountInfo(_text: string): readonly Mount[] {
  throw new Error('to come');
}

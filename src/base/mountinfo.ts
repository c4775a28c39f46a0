/** One line of /proc/self/mountinfo. */
export interface Mount {
  readonly target: string;
  /** The part of the filesystem that is mounted: `/` unless it is a bind mount of a subdirectory. */
  readonly root: string;
  /** `major:minor` */
  readonly device: string;
  readonly filesystem: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** In the kernel's order: of several mounts on one target, the last is on top. */
export function parseMountInfo(text: string): readonly Mount[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(parseLine);
}

/** `36 35 98:0 /root /target rw,noatime shared:1 - ext4 /dev/sda rw`, with any number of fields before the dash. */
function parseLine(line: string): Mount {
  const fields = line.split(' ');
  const dash = fields.indexOf('-', 6);
  const [, , device, root, target, options] = fields;
  const [filesystem, source] = fields.slice(dash + 1);
  if (dash < 0 || !device || !root || !target || !options || !filesystem || source === undefined) {
    throw new Error(`not a line of mountinfo: ${line}`);
  }
  return {
    target: unescape(target),
    root: unescape(root),
    device,
    filesystem,
    source: unescape(source),
    options: options.split(','),
  };
}

/** The kernel writes spaces, newlines and backslashes in names as three octal digits. */
function unescape(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** The fields of a line of Moorage's log that tests use. */
export interface LogLine {
  readonly time: string;
  readonly msg: string;
  readonly socket?: string;
}

/** The log lines in a text; a container runtime puts a prefix before each. */
export function logLines(text: string): LogLine[] {
  return text.split('\n').flatMap((line) => {
    const [json] = /\{.*"time":.*\}$/.exec(line) ?? [];
    return json ? (JSON.parse(json) as LogLine) : [];
  });
}

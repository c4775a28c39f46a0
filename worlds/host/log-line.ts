/** A line of Moorage's log, as far as tests ask. */
export interface LogLine {
  readonly time: string;
  readonly msg: string;
  readonly socket?: string;
}

/** Those of a text that are any; a container runtime writes some words of its own before each. */
export function logLines(text: string): LogLine[] {
  return text.split('\n').flatMap((line) => {
    const [json] = /\{.*"time":.*\}$/.exec(line) ?? [];
    return json ? (JSON.parse(json) as LogLine) : [];
  });
}

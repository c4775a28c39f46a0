/** Reports the current step of a stage; each call replaces the previous one. */
export type Say = (detail: string) => void;

const quietIntervalMs = 10_000;

/**
 * Runs one stage of a long job, and shows its name, its current step and its duration. On a terminal the line is rewritten
 * in place; elsewhere (a CI log) a line is printed at most every ten seconds. A stage without work is not shown.
 */
export async function stage<T>(title: string, work: (say: Say) => Promise<T>): Promise<T> {
  const started = performance.now();
  const terminal = process.stderr.isTTY;
  let lastShown = started;
  let said = false;
  const say: Say = (detail) => {
    const now = performance.now();
    said = true;
    if (terminal) process.stderr.write(`\r\x1b[2K… ${title}: ${detail}`.slice(0, (process.stderr.columns ?? 80) + 4));
    else if (now - lastShown >= quietIntervalMs) {
      lastShown = now;
      process.stderr.write(`… ${title}: ${detail}\n`);
    }
  };
  const end = (mark: string) =>
    process.stderr.write(`${terminal ? '\r\x1b[2K' : ''}${mark} ${title} (${duration(performance.now() - started)})\n`);
  try {
    const result = await work(say);
    if (said || performance.now() - started > 500) end('✓');
    return result;
  } catch (error) {
    end('✗');
    throw error;
  }
}

/** A heading for the output that follows. */
export function heading(title: string): string {
  return `── ${title} ${'─'.repeat(Math.max(0, 70 - title.length))}`;
}

/** 850 → "0.9 s", 75,000 → "1 min 15 s" */
export function duration(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

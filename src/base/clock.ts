/** Injected time, so that tests control it and never wait. */
export interface Clock {
  /** Milliseconds since the epoch, for times that others read or have written. It jumps when somebody sets the clock. */
  now(): number;
  /** Milliseconds since a moment in the past, for how long something takes or is valid. It never jumps. */
  monotonic(): number;
  setTimer(callback: () => void, delayMs: number): Timer;
}

export interface Timer {
  /** Does nothing once the timer has fired. */
  cancel(): void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Math.floor(performance.now()),
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

/** As kubectl shows it: `45s`, `12m`, `3h`, `12d`. */
export function age(since: string, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - Date.parse(since)) / 1000));
  if (!Number.isFinite(seconds)) return '';
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

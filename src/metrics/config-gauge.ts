import { metrics } from '../api/names.ts';
import { gauge, type Metric } from './metric.ts';

/** Tells whoever watches that a change of the configuration was refused, and the one of before is still in use. */
export function configGauge(problem: () => unknown): Metric {
  return gauge({
    name: metrics.configAccepted,
    help: '1 while the configuration file is in use as it is, 0 while it is refused and the one of before is in use.',
    read: () => [{ value: problem() === undefined ? 1 : 0 }],
  });
}

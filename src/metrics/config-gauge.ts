import { metrics } from '../api/names.ts';
import { gauge, type Metric } from './metric.ts';

/** Shows monitoring that a configuration change was rejected and the previous configuration is still in use. */
export function configGauge(problem: () => unknown): Metric {
  return gauge({
    name: metrics.configAccepted,
    help: '1 if the current configuration file is in use, 0 if it was rejected and the previous one is in use.',
    read: () => [{ value: problem() === undefined ? 1 : 0 }],
  });
}
